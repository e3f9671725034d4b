//! The trace that a caller continues.

use crate::types::Context;

impl Context {
    /// Returns the trace that the caller continues, if its `TRACEPARENT` has the form of W3C Trace Context and nothing else.
    pub fn trace(&self) -> Option<&str> {
        let (_, text) = self.environment.iter().find(|(name, _)| name == "TRACEPARENT")?;
        let lengths = [2, 32, 16, 2];
        let fields: Vec<&str> = text.split('-').collect();
        let is_hex = |field: &&str| field.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
        let is_trace = fields.iter().map(|it| it.len()).eq(lengths)
            && fields.iter().all(is_hex)
            && fields.first().is_some_and(|version| *version != "ff")
            && fields.get(1..3)?.iter().all(|id| id.bytes().any(|it| it != b'0'));
        is_trace.then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_the_form_of_a_trace_is_one() {
        let of = |text: &str| {
            let environment = vec![("TRACEPARENT".to_owned(), text.to_owned())];
            Context { environment, ..Context::default() }.trace().map(str::to_owned)
        };
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(of(trace).as_deref(), Some(trace));
        for bad in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e47-3600f067aa0ba902b7-01",
            "a password of 55 bytes that somebody put into it by err",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
