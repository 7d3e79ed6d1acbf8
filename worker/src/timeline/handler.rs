//! Handlers of one kind of event, with a scope per block, and closures as handlers.

use std::{collections::HashMap, marker::PhantomData};

use super::Kind;

/// Handles the events of one kind.
///
/// Block events of one block share a scope: made by `Default` when the block starts, dropped when it ends. Other
/// events get a fresh scope each, usually `()`. Handlers run inside the turn loop and should return quickly.
pub trait Handler<K: Kind>: Send {
    /// What the handler keeps for one block.
    type Scope: Default + Send;

    /// Takes note of an event.
    fn on_event(&mut self, scope: &mut Self::Scope, event: &K::Event);
}

/// What can be registered as a handler: a [`Handler`], or a closure that takes the event.
///
/// `M` only tells the two apart and is always inferred.
pub trait IntoHandler<K: Kind, M> {
    #[doc(hidden)]
    fn into_erased(self) -> Box<dyn Erased<K>>;
}

/// A registered handler, until it panics.
pub(super) type Slot<K> = Option<Box<dyn Erased<K>>>;

/// A handler whose scopes are its own business.
#[doc(hidden)]
pub trait Erased<K: Kind>: Send {
    fn handle(&mut self, block: Option<u32>, event: &K::Event);
    fn drop_scopes(&mut self, block: Option<u32>);
}

/// Marks handlers.
#[derive(Debug)]
pub struct IsHandler;

/// Marks closures.
#[derive(Debug)]
pub struct IsClosure;

impl<K: Kind, H: Handler<K> + 'static> IntoHandler<K, IsHandler> for H {
    fn into_erased(self) -> Box<dyn Erased<K>> {
        Box::new(Scoped {
            handler: self,
            scopes: HashMap::new(),
            kind: PhantomData,
        })
    }
}

impl<K: Kind, F: FnMut(&K::Event) + Send + 'static> IntoHandler<K, IsClosure> for F {
    fn into_erased(self) -> Box<dyn Erased<K>> {
        Box::new(Closure(self))
    }
}

struct Scoped<K: Kind, H: Handler<K>> {
    handler: H,
    scopes: HashMap<u32, H::Scope>,
    kind: PhantomData<fn(K)>,
}

impl<K: Kind, H: Handler<K>> Erased<K> for Scoped<K, H> {
    fn handle(&mut self, block: Option<u32>, event: &K::Event) {
        match block {
            Some(block) => self
                .handler
                .on_event(self.scopes.entry(block).or_default(), event),
            None => self.handler.on_event(&mut H::Scope::default(), event),
        }
    }

    fn drop_scopes(&mut self, block: Option<u32>) {
        match block {
            Some(block) => drop(self.scopes.remove(&block)),
            None => self.scopes.clear(),
        }
    }
}

struct Closure<F>(F);

impl<K: Kind, F: FnMut(&K::Event) + Send> Erased<K> for Closure<F> {
    fn handle(&mut self, _block: Option<u32>, event: &K::Event) {
        (self.0)(event);
    }

    fn drop_scopes(&mut self, _block: Option<u32>) {}
}
