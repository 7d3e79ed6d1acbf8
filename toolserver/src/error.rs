//! Writing an error with its causes. The text of an error does not repeat its source; whoever tells it to a person or a
//! model walks the chain here.

use std::error::Error;

/// Writes an error with its causes on one line.
#[must_use]
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = error.to_string();
        // Wrappers that are transparent, or that quote their source after all, say nothing new.
        if !text.ends_with(&told) {
            text.push_str(": ");
            text.push_str(&told);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Failure {
        #[error("the lid is stuck")]
        Lid(#[source] std::io::Error),
        #[error(transparent)]
        Through(Box<Failure>),
    }

    #[test]
    fn causes_are_told_once() {
        let stuck = Failure::Lid(std::io::Error::other("no oil"));
        assert_eq!(error_chain(&stuck), "the lid is stuck: no oil");
        assert_eq!(
            error_chain(&Failure::Through(Box::new(stuck))),
            "the lid is stuck: no oil"
        );
    }
}
