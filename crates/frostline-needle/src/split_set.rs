//! A set of a segment's splits.

/// A segment covers at most this many splits.
pub const SPLITS_MAX: usize = 1_024;

const WORDS: usize = SPLITS_MAX / 64;

/// Splits of one segment, by their numbers in it.
///
/// What a segment answers is a superset: a split outside the set does not hold the term, one inside may. Unions
/// and intersections of supersets are supersets, complements are not; so there is no complement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SplitSet {
    words: [u64; WORDS],
}

impl SplitSet {
    /// No split.
    pub const EMPTY: SplitSet = SplitSet { words: [0; WORDS] };

    /// The splits from zero to `count`, at most [`SPLITS_MAX`].
    pub fn first(count: usize) -> SplitSet {
        (0..count.min(SPLITS_MAX)).map(|number| number as u16).collect()
    }

    /// Adds a split; numbers from [`SPLITS_MAX`] on are none.
    pub fn insert(&mut self, number: u16) {
        if let Some(word) = self.words.get_mut(usize::from(number / 64)) {
            *word |= 1 << (number % 64);
        }
    }

    /// Whether the split is in it.
    pub fn contains(&self, number: u16) -> bool {
        self.words.get(usize::from(number / 64)).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// How many splits.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let next = |left: &u64| Some(left & (left - 1)).filter(|left| *left != 0);
            let left = std::iter::successors(Some(*word).filter(|word| *word != 0), next);
            left.map(move |left| (at * 64) as u16 + left.trailing_zeros() as u16)
        })
    }
}

impl std::ops::BitOrAssign for SplitSet {
    fn bitor_assign(&mut self, other: SplitSet) {
        self.words.iter_mut().zip(other.words).for_each(|(word, other)| *word |= other);
    }
}

impl std::ops::BitAndAssign for SplitSet {
    fn bitand_assign(&mut self, other: SplitSet) {
        self.words.iter_mut().zip(other.words).for_each(|(word, other)| *word &= other);
    }
}

impl FromIterator<u16> for SplitSet {
    fn from_iter<I: IntoIterator<Item = u16>>(numbers: I) -> SplitSet {
        let mut set = SplitSet::EMPTY;
        numbers.into_iter().for_each(|number| set.insert(number));
        set
    }
}

impl std::fmt::Debug for SplitSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests;
