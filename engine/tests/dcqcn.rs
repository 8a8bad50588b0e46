//! The reaction point against worked traces, closed forms and the fluid model.
#![allow(clippy::unwrap_used, clippy::cast_lossless, reason = "a test may fail")]

#[path = "dcqcn/closed_forms.rs"]
mod closed_forms;
#[path = "dcqcn/fluid.rs"]
mod fluid;
#[path = "dcqcn/traces.rs"]
mod traces;
