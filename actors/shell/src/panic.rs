//! Catching a panic together with what a person needs to find its cause.

use std::{
    any::Any,
    backtrace::Backtrace,
    cell::{Cell, RefCell},
    fmt,
    panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook},
    pin::Pin,
    sync::Once,
    task::{Context, Poll},
};

/// A panic that was caught.
#[derive(Clone, Debug)]
pub struct Panic {
    /// What it said.
    pub message: String,
    /// Where: file, line and column.
    pub location: String,
    /// The call stack at that moment.
    pub backtrace: String,
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked at {}: {}", self.location, self.message)
    }
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    static SEEN: RefCell<Option<(String, Backtrace)>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// The unwinding payload has no backtrace; only the panic hook can take one. Outside of `guard` the previous hook stays
/// in charge.
fn install_hook() {
    HOOK.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            if GUARDED.get() {
                let location = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
                SEEN.set(Some((location, Backtrace::force_capture())));
            } else {
                previous(info);
            }
        }));
    });
}

/// Runs `work`; a panic in it comes back as a value. Whatever `work` could have left half-changed must be dropped then.
pub(crate) fn guard<T>(work: impl FnOnce() -> T) -> Result<T, Box<Panic>> {
    install_hook();
    let outer = GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(outer);
    result.map_err(|payload| Box::new(describe(payload.as_ref())))
}

/// A future whose panics come back as values.
#[derive(Debug)]
pub(crate) struct Guarded<F>(pub(crate) Pin<Box<F>>);

impl<F: Future> Future for Guarded<F> {
    type Output = Result<F::Output, Box<Panic>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match guard(|| self.0.as_mut().poll(cx)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

fn describe(payload: &(dyn Any + Send)) -> Panic {
    let message = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a value that is not text".to_owned());
    let (location, backtrace) = SEEN
        .take()
        .map_or_else(|| ("an unknown place".to_owned(), String::new()), |(place, trace)| (place, trace.to_string()));
    Panic { message, location, backtrace }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_comes_back_with_message_place_and_stack() {
        let panic = guard(|| panic!("job {} is poisoned", 13)).unwrap_err();
        assert_eq!(panic.message, "job 13 is poisoned");
        assert!(panic.location.contains("panic.rs"), "{}", panic.location);
        assert!(!panic.backtrace.is_empty());
        assert_eq!(guard(|| 7).unwrap(), 7);
    }

    #[tokio::test]
    async fn a_panic_in_a_future_comes_back_too() {
        let bad = async {
            tokio::task::yield_now().await;
            panic!("late");
        };
        assert_eq!(Guarded(Box::pin(bad)).await.unwrap_err().message, "late");
    }
}
