//! What requests mean.
