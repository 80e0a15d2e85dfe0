use crate::{Error, Limits, Result};
use base64::{Engine, alphabet, engine};

/// Base64 with or without padding at its end.
const BASE64: engine::GeneralPurpose = engine::GeneralPurpose::new(
    &alphabet::STANDARD,
    engine::GeneralPurposeConfig::new().with_decode_padding_mode(engine::DecodePaddingMode::Indifferent),
);

/// The bytes of a `data:` URL with Base64 (RFC 2397); `None` where the URL is of another kind. Line breaks and spaces are passed over.
///
/// # Errors
/// When it is not in Base64, or longer than the limit allows.
pub fn data_url(url: &str, limits: Limits) -> Option<Result<Vec<u8>>> {
    let scheme = url.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("data:"))?;
    let broken = |what: &str| Err(Error::Invalid(format!("the data URL {what}")));
    let Some((kind, data)) = url[scheme.len()..].split_once(',') else { return Some(broken("has no comma")) };
    if !kind.rsplit(';').next().is_some_and(|last| last.trim().eq_ignore_ascii_case("base64")) {
        return Some(broken("is not in Base64: `data:image/png;base64,...` is needed"));
    }
    // Four characters are three bytes; line breaks are few.
    if data.len() / 4 > limits.bytes / 3 * 2 {
        return Some(Err(Error::TooLarge(format!("the image is longer than the {} bytes that are allowed", limits.bytes))));
    }
    let is_gap = |b: &u8| b.is_ascii_whitespace();
    let decoded = match data.bytes().any(|b| is_gap(&b)) {
        true => BASE64.decode(data.bytes().filter(|b| !is_gap(b)).collect::<Vec<u8>>()),
        false => BASE64.decode(data),
    };
    Some(decoded.or_else(|error| broken(&format!("is not valid Base64: {error}"))))
}
