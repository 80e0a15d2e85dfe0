//! Where templates are Python more than Jinja.

use minijinja::{Environment, Value, value::ValueKind};

/// Adds Python's methods on strings, lists and dictionaries, and tests and functions as Jinja2 has them.
pub(super) fn add_to(environment: &mut Environment<'static>) {
    minijinja_contrib::add_to_environment(environment);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    // Jinja2 asks for a length and for access by index, which strings and dictionaries have too.
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::Undefined | ValueKind::Seq | ValueKind::Map | ValueKind::String)
    });
}

/// A finite float as Python's `repr` writes it.
pub(super) fn float(value: f64) -> String {
    // Rust turns to exponents at the same sizes, but writes them without sign and padding.
    let text = format!("{value:?}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |e| ('-', e));
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    /// From Python's `repr`.
    #[test]
    fn floats() {
        for (value, want) in [
            (1.0, "1.0"),
            (-3.5, "-3.5"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (0.1 + 0.2, "0.30000000000000004"),
            (-0.0, "-0.0"),
        ] {
            assert_eq!(super::float(value), want);
        }
    }
}
