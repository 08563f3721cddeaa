//! Maps a key to the slot that holds it: open addressing over slot numbers alone, 6 bytes per slot.
//!
//! Keys are not stored twice: the caller supplies the key of a slot. The table never grows, so its memory is known
//! from the start. A map of the standard library takes 12 to 46 bytes for the same, and doubles as keys come and go.

/// The slots in use, found by key. Holds at most as many slots as it was made for.
#[derive(Debug)]
pub(crate) struct Places(Vec<u32>);

const NONE: u32 = u32::MAX;

impl Places {
    pub(crate) fn new(slots: u32) -> Places {
        // At most two thirds full, so that looking up an absent key ends soon.
        Places(vec![NONE; (u64::from(slots) * 3 / 2 + 1) as usize])
    }

    /// The slot whose `key_of` is `key`.
    pub(crate) fn find(&self, key: u64, key_of: impl Fn(u32) -> Option<u64>) -> Option<u32> {
        self.from(self.home(key)).find(|&slot| key_of(slot) == Some(key))
    }

    /// Registers that the slot holds `key`, which no other slot does.
    pub(crate) fn insert(&mut self, key: u64, slot: u32) {
        let mut at = self.home(key);
        for _ in 0..self.0.len() {
            match self.0.get_mut(at) {
                Some(cell) if *cell == NONE => {
                    *cell = slot;
                    return;
                }
                _ => at = self.after(at),
            }
        }
    }

    /// Removes the slot of `key`; `key_of` is called for other slots only.
    pub(crate) fn remove(&mut self, key: u64, slot: u32, key_of: impl Fn(u32) -> Option<u64>) {
        let mut hole = self.home(key);
        while self.cell(hole) != slot {
            if self.cell(hole) == NONE {
                return;
            }
            hole = self.after(hole);
        }
        // Entries that were pushed past this cell move back, so that no search ends too early.
        let mut at = self.after(hole);
        while self.cell(at) != NONE {
            let home = self.home(key_of(self.cell(at)).unwrap_or_default());
            let (reach, gap) = (self.distance(home, at), self.distance(hole, at));
            if reach >= gap {
                self.0[hole] = self.cell(at);
                hole = at;
            }
            at = self.after(at);
        }
        self.0[hole] = NONE;
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<u32>()
    }

    fn home(&self, key: u64) -> usize {
        // Keys are hashes: their upper half spreads evenly.
        (((key >> 32) * self.0.len() as u64) >> 32) as usize
    }

    fn from(&self, home: usize) -> impl Iterator<Item = u32> {
        let (before, after) = self.0.split_at(home);
        after.iter().chain(before).copied().take_while(|&slot| slot != NONE)
    }

    fn cell(&self, at: usize) -> u32 {
        self.0.get(at).copied().unwrap_or(NONE)
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 < self.0.len() { at + 1 } else { 0 }
    }

    /// The number of steps from one cell to another.
    fn distance(&self, from: usize, to: usize) -> usize {
        if from <= to { to - from } else { to + self.0.len() - from }
    }
}

#[cfg(test)]
mod tests;
