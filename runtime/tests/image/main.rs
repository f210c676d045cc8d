//! Images, from the outside: what is packed, prepared, refused, shared, collected and cleaned up.

mod hostile;
mod killed;
mod layouts;
mod overlay;
mod packed;
mod random;
mod stored;
mod support;
mod users;
