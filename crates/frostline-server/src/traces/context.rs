//! Which trace a request is in, and whether it is sent: W3C's trace context, and samplers as OpenTelemetry names them.

use http::HeaderMap;

/// The longest `tracestate` that is taken over: each span of the request has it.
const STATE_BYTES_MAX: usize = 512;

/// What a client says of the trace that its request is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outer {
    pub(super) trace: u128,
    /// The span of the client.
    pub(super) span: u64,
    pub(super) is_sampled: bool,
    pub(super) state: Option<String>,
}

impl Outer {
    /// None where headers name no trace, or not as they should.
    pub(super) fn of(headers: &HeaderMap) -> Option<Outer> {
        let mut all = headers.get_all("traceparent").iter();
        let (parent, None) = (all.next()?.to_str().ok()?, all.next()) else { return None };
        let mut parts = parent.split('-');
        let mut part = |digits: usize| {
            let part = parts.next().filter(|part| part.len() == digits)?;
            let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            part.bytes().all(is_hex).then_some(part)
        };
        let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        // A later version may say more.
        if version == "ff" || (version == "00" && parts.next().is_some()) {
            return None;
        }
        let trace = u128::from_str_radix(trace, 16).ok().filter(|trace| *trace != 0)?;
        let span = u64::from_str_radix(span, 16).ok().filter(|span| *span != 0)?;
        let is_sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        let states: Option<Vec<&str>> =
            headers.get_all("tracestate").iter().map(|state| state.to_str().ok()).collect();
        let state = states.unwrap_or_default().join(",");
        let state = Some(state).filter(|state| !state.is_empty() && state.len() <= STATE_BYTES_MAX);
        Some(Outer { trace, span, is_sampled, state })
    }
}

/// Whose requests have traces that are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sampler {
    /// The share of those traces, by their identity.
    pub(super) ratio: f64,
    /// Whether a client that names a trace decides of it.
    pub(super) follows: bool,
}

impl Sampler {
    /// Whether a trace is sent.
    pub(super) fn samples(self, trace: u128, outer: Option<&Outer>) -> bool {
        match outer {
            Some(outer) if self.follows => outer.is_sampled,
            // The right half of an identity is random, whoever made it.
            _ => (trace as u64) >> 1 < (self.ratio * (1_u64 << 63) as f64) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outer(parent: &str, states: &[&str]) -> Option<Outer> {
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", parent.parse().unwrap());
        for state in states {
            headers.append("tracestate", state.parse().unwrap());
        }
        Outer::of(&headers)
    }

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn a_client_names_a_trace_as_w3c_says() {
        let named = outer(&format!("00-{TRACE}-{SPAN}-01"), &["a=1", "b=2"]).unwrap();
        assert_eq!((named.trace, named.span), (0x4bf92f3577b34da6a3ce929d0e0e4736, 0x00f067aa0ba902b7));
        assert_eq!((named.is_sampled, named.state.as_deref()), (true, Some("a=1,b=2")));
        let long = "a".repeat(STATE_BYTES_MAX + 1);
        assert_eq!(outer(&format!("00-{TRACE}-{SPAN}-02"), &[&long]).unwrap().state, None);
        assert!(!outer(&format!("00-{TRACE}-{SPAN}-02"), &[]).unwrap().is_sampled);
        assert!(outer(&format!("01-{TRACE}-{SPAN}-01-more"), &[]).unwrap().is_sampled);
    }

    #[test]
    fn what_is_no_trace_context_names_none() {
        let zeros = "0".repeat(32);
        for parent in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{zeros}-{SPAN}-01"),
            format!("00-{TRACE}-{}-01", &zeros[..16]),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-{SPAN}-+1"),
            format!("0-{TRACE}-{SPAN}-01"),
        ] {
            assert_eq!(outer(&parent, &[]), None, "{parent}");
        }
        let mut twice = HeaderMap::new();
        for _ in 0..2 {
            twice.append("traceparent", format!("00-{TRACE}-{SPAN}-01").parse().unwrap());
        }
        assert_eq!(Outer::of(&twice), None);
    }

    #[test]
    fn a_share_of_traces_is_sampled_by_their_identity() {
        let share = |ratio: f64| {
            let sampler = Sampler { ratio, follows: false };
            let traces = (0..10_000_u64).map(|n| u128::from(n.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
            traces.filter(|trace| sampler.samples(*trace, None)).count()
        };
        assert_eq!((share(0.0), share(1.0)), (0, 10_000));
        assert!((900..1_100).contains(&share(0.1)), "{}", share(0.1));
        assert!(Sampler { ratio: 1.0, follows: false }.samples(u128::MAX, None));
        let said = |is_sampled| Outer { trace: 1, span: 1, is_sampled, state: None };
        for (follows, is_sampled, expected) in
            [(true, true, true), (true, false, false), (false, true, false), (false, false, false)]
        {
            let sampler = Sampler { ratio: 0.0, follows };
            assert_eq!(sampler.samples(u128::MAX, Some(&said(is_sampled))), expected);
        }
    }
}
