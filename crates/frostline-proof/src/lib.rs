//! Nothing but a place for tests of the engine as a whole: see `tests/proof` and `docs/testing.md`.
