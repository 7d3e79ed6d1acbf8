//! Output as it arrives, kept up to a limit and counted beyond it.

/// What a command wrote.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    /// The beginning of the output, standard output and error in the order they arrived.
    pub(crate) bytes: Vec<u8>,
    /// How much was written in all.
    pub(crate) total: u64,
}

impl Captured {
    /// Takes what arrived; beyond `max` bytes it is only counted.
    pub(super) fn push(&mut self, arrived: &[u8], max: usize) {
        let room = max.saturating_sub(self.bytes.len()).min(arrived.len());
        self.bytes.extend_from_slice(&arrived[..room]);
        self.total += arrived.len() as u64;
    }

    /// Returns whether some of the output was not kept.
    pub(crate) fn is_cut(&self) -> bool {
        self.total > self.bytes.len() as u64
    }
}
