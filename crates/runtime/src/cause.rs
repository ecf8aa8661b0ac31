//! Errors of other code, and messages of panics.

use std::any::Any;

/// Error of unknown code, such as a user's function.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The message of a panic; None if its payload is not text.
#[must_use]
pub fn panic_message(payload: &(dyn Any + Send)) -> Option<&str> {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_found_in_text_of_either_type() {
        let message = |panic: fn()| {
            let payload = std::panic::catch_unwind(panic).unwrap_err();
            panic_message(&*payload).map(str::to_owned)
        };
        assert_eq!(message(|| panic!("constant")).as_deref(), Some("constant"));
        let formatted = message(|| panic!("number {}", std::process::id()));
        assert!(formatted.unwrap().starts_with("number "));
        assert_eq!(message(|| std::panic::panic_any(7)), None);
    }
}
