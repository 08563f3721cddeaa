//! A naive model.
