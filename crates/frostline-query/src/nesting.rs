//! A limit on the nesting depth of serialized input.

use std::cell::Cell;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Deeper than any request that is accepted.
pub(crate) const DEPTH_MAX: usize = 256;

thread_local! {
    /// How deep this thread is in what it reads: serde hands no state down to what is read within.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Reads what lies a level deeper, and refuses bytes that would exhaust the stack.
pub(crate) fn deeper<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct Above(usize);
    impl Drop for Above {
        fn drop(&mut self) {
            DEPTH.set(self.0);
        }
    }
    let above = Above(DEPTH.get());
    if above.0 >= DEPTH_MAX {
        return Err(D::Error::custom("nested deeper than any request"));
    }
    DEPTH.set(above.0 + 1);
    T::deserialize(deserializer)
}
