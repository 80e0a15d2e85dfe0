//! Who is answered: keys, and the checks of `Host` and `Origin` that keep web pages out.
//!
//! A page on the web can make its visitor's browser send requests to this machine, in two ways. It can name the address
//! plainly, and the browser then says in `Origin` where the page is from: foreign origins are refused. Or its own name can be
//! made to resolve to this machine (DNS rebinding); then page and server have one origin, but `Host` holds the page's name:
//! names that are not ours are refused. An IP address in `Host` cannot come about that way and is always answered. With a key
//! the second check is left out, as a page does not know it, and servers behind a proxy are reached under any name.

use crate::error::ApiError;
use crate::options::ServeOptions;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use axum::response::{IntoResponse, Response};
use std::net::{IpAddr, Ipv6Addr};

/// Paths that are answered without a key: they tell nothing but whether the server is up.
pub(crate) const OPEN: [&str; 2] = ["/health", "/v1/health"];

/// What the checks came to.
pub(crate) enum Verdict {
    /// Answer it; send these CORS headers along.
    Pass(Vec<(HeaderName, HeaderValue)>),
    /// This is the answer.
    Answer(Response),
}

/// Checks a request's host, origin and key, and answers CORS preflights.
pub(crate) fn check(options: &ServeOptions, keys: &[String], request: &Request) -> Verdict {
    let cors = match check_host(options, keys, request).and_then(|host| check_origin(options, request.headers(), &host)) {
        Ok(cors) => cors,
        Err(error) => return Verdict::Answer(error.into_response()),
    };
    let is_preflight = request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if is_preflight && !cors.is_empty() {
        let mut response = StatusCode::NO_CONTENT.into_response();
        response.headers_mut().extend(cors);
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
        let allowed = HeaderValue::from_static("authorization, content-type, x-api-key");
        let asked = request.headers().get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned().unwrap_or(allowed);
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_HEADERS, asked);
        return Verdict::Answer(response);
    }
    match check_key(keys, request) {
        Ok(()) => Verdict::Pass(cors),
        Err(error) => {
            let mut response = error.into_response();
            response.headers_mut().extend(cors);
            Verdict::Answer(response)
        }
    }
}

/// The host that the request names (empty for HTTP/1.0 without one), or why it is refused.
fn check_host(options: &ServeOptions, keys: &[String], request: &Request) -> Result<String, ApiError> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().map_err(|_| ApiError::bad_request("The `Host` header is not text"))?,
        // Browsers, of which this check is about, always send it.
        (None, _) if request.version() == Version::HTTP_10 => "",
        (None, _) => return Err(ApiError::bad_request("The `Host` header is missing")),
        (Some(_), Some(_)) => return Err(ApiError::bad_request("The `Host` header comes twice")),
    };
    // `GET http://name/path HTTP/1.1`, as sent to proxies, names a host of its own, which counts instead.
    let host = request.uri().authority().map_or(host, |a| a.as_str());
    let name = without_port(host);
    if !keys.is_empty() || name.is_empty() || is_own_name(options, name) || is_listed(&options.allowed_hosts, name) {
        return Ok(host.to_string());
    }
    tracing::warn!(host = crate::json::shorten(host), "refused a request for a foreign host");
    Err(ApiError::forbidden("The `Host` header names a host that this server does not answer for; --allowed-host adds one")
        .coded("host_not_allowed"))
}

/// The CORS headers that the request's origin is due, or why it is refused.
fn check_origin(options: &ServeOptions, headers: &HeaderMap, host: &str) -> Result<Vec<(HeaderName, HeaderValue)>, ApiError> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let Some(origin) = origins.next() else { return Ok(vec![]) };
    let text = origin.to_str().unwrap_or_default();
    if origins.next().is_none() {
        if is_listed(&options.allowed_origins, text) {
            let allow = (header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            return Ok(vec![allow, (header::VARY, HeaderValue::from_static("origin"))]);
        }
        let own = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        if own.is_some_and(|own| own.eq_ignore_ascii_case(host)) {
            return Ok(vec![]);
        }
    }
    tracing::warn!(origin = crate::json::shorten(text), "refused a request from a foreign origin");
    Err(ApiError::forbidden("Requests from this `Origin` are not allowed; --allowed-origin adds one").coded("origin_not_allowed"))
}

fn check_key(keys: &[String], request: &Request) -> Result<(), ApiError> {
    if keys.is_empty() || OPEN.contains(&request.uri().path()) {
        return Ok(());
    }
    let headers = request.headers();
    let bearer = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes).and_then(|v| {
        let (scheme, key) = v.split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
    });
    let Some(given) = bearer.or_else(|| headers.get("x-api-key").map(HeaderValue::as_bytes)) else {
        return Err(ApiError::key("You didn't provide an API key. Send it as `Authorization: Bearer KEY`."));
    };
    // All keys are compared to the end, so that the time tells nothing about how near a guess was.
    let found = keys.iter().fold(false, |found, key| found | same(given, key.as_bytes()));
    if found { Ok(()) } else { Err(ApiError::key("Incorrect API key provided.")) }
}

/// Whether the two are equal, in a time that depends on the length of `given` only.
fn same(given: &[u8], key: &[u8]) -> bool {
    let mut difference = given.len() ^ key.len();
    for (i, byte) in given.iter().enumerate() {
        // Past the key's end, compare with its start again: lengths differ already.
        let other = if key.is_empty() { 0 } else { key[i % key.len()] };
        difference |= usize::from(std::hint::black_box(byte ^ other));
    }
    std::hint::black_box(difference) == 0
}

fn is_own_name(options: &ServeOptions, name: &str) -> bool {
    let bare = name.strip_prefix('[').and_then(|n| n.strip_suffix(']'));
    let is_address = bare.map_or_else(|| name.parse::<IpAddr>().is_ok(), |n| n.parse::<Ipv6Addr>().is_ok());
    is_address || name.eq_ignore_ascii_case("localhost") || name.eq_ignore_ascii_case(&options.host)
}

fn is_listed(list: &[String], name: &str) -> bool {
    list.iter().any(|entry| entry == "*" || entry.eq_ignore_ascii_case(name))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        // The colons of `[::1]` are not a port's.
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']')) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn request(headers: &[(&str, &str)]) -> Request {
        let mut request = Request::builder().uri("/v1/models");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).expect("a valid request")
    }

    fn status(options: &ServeOptions, headers: &[(&str, &str)]) -> u16 {
        match check(options, &options.api_keys, &request(headers)) {
            Verdict::Pass(_) => 200,
            Verdict::Answer(response) => response.status().as_u16(),
        }
    }

    #[test]
    fn hosts() {
        let plain = ServeOptions::default();
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:8080", "[::1]:8080", "[::1]", "192.168.1.5:1", "127.0.0.1:"] {
            assert_eq!(status(&plain, &[("host", host)]), 200, "{host}");
        }
        for host in ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "[::1].evil", "a@localhost"] {
            assert_eq!(status(&plain, &[("host", host)]), 403, "{host}");
        }
        assert_eq!(status(&plain, &[]), 400);
        assert_eq!(status(&plain, &[("host", "localhost"), ("host", "localhost")]), 400);
        let listed = ServeOptions { allowed_hosts: vec!["box.lan".into()], host: "inner.lan".into(), ..ServeOptions::default() };
        assert_eq!(status(&listed, &[("host", "box.lan:81")]), 200);
        assert_eq!(status(&listed, &[("host", "inner.lan:81")]), 200);
        assert_eq!(status(&listed, &[("host", "other.lan:81")]), 403);
    }

    #[test]
    fn origins() {
        let plain = ServeOptions::default();
        let with = |origin| [("host", "localhost:8080"), ("origin", origin)];
        assert_eq!(status(&plain, &with("http://localhost:8080")), 200);
        for origin in ["http://localhost:3000", "https://evil.example", "null", "", "http://localhost:8080.evil.example", "file://"] {
            assert_eq!(status(&plain, &with(origin)), 403, "{origin}");
        }
        let listed = ServeOptions { allowed_origins: vec!["http://localhost:3000".into()], ..ServeOptions::default() };
        let Verdict::Pass(headers) = check(&listed, &[], &request(&with("http://localhost:3000"))) else { panic!("refused") };
        assert_eq!(headers[0], (header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("http://localhost:3000")));
        assert_eq!(status(&listed, &with("http://localhost:3001")), 403);
    }

    #[test]
    fn keys() {
        let keyed = ServeOptions { api_keys: vec!["one".into(), "second key".into()], ..ServeOptions::default() };
        let with = |name, value| [("host", "any.example"), (name, value)];
        assert_eq!(status(&keyed, &with("authorization", "Bearer one")), 200);
        assert_eq!(status(&keyed, &with("authorization", "bearer second key")), 200);
        assert_eq!(status(&keyed, &with("x-api-key", "one")), 200);
        for wrong in ["Bearer on", "Bearer onee", "Bearer oneone", "Bearer ", "one", "Basic one", "Bearer Xne", ""] {
            assert_eq!(status(&keyed, &with("authorization", wrong)), 401, "{wrong}");
        }
        assert_eq!(status(&keyed, &with("accept", "*/*")), 401);
        let health = Request::builder().uri("/health").header("host", "x").body(Body::empty()).expect("a valid request");
        assert!(matches!(check(&keyed, &keyed.api_keys, &health), Verdict::Pass(_)));
    }
}
