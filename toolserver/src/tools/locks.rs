//! One change of a file at a time, so that two calls of one batch never lose each other's work.
//!
//! A lock belongs to a name in a directory, not to an inode: every change gives the name a new inode. It is held on a
//! thread for blocking work from reading to writing, never across an await.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use crate::scope::FileKey;

/// The locks of the files that are being changed; clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct FileLocks(Arc<Mutex<HashMap<FileKey, Weak<Mutex<()>>>>>);

impl FileLocks {
    /// Waits until nobody else changes the file, and runs `change`.
    pub(super) fn exclusively<T>(&self, key: FileKey, change: impl FnOnce() -> T) -> T {
        let lock = self.of(key);
        // A panic in another change left nothing half done: files are replaced as a whole.
        let _turn = lock.lock().unwrap_or_else(PoisonError::into_inner);
        change()
    }

    fn of(&self, key: FileKey) -> Arc<Mutex<()>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|_, lock| lock.strong_count() > 0);
        if let Some(lock) = locks.get(&key).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::default();
        locks.insert(key, Arc::downgrade(&lock));
        lock
    }
}
