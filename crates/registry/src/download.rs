//! Bytes over HTTP, resumed where they broke off; and the walk over a file's sources.

use crate::{Error, FileEntry, Observer, Result, Settings, cache::Part};
use sha2::{Digest, Sha256};
use std::{fs::File, io::Read, path::Path, time::Duration};

/// Broken connections in a row, without a byte between them, after which a source is given up.
const TRIES: u32 = 4;

/// Tries each source until one gives the whole file, checked.
pub(crate) fn from_sources(file: &FileEntry, part: &mut Part, settings: &Settings, observer: &dyn Observer) -> Result<()> {
    let mut tries = vec![];
    for source in &file.sources {
        let name = source.to_string();
        let resumed = part.len > 0;
        let mut got = source.fetch(file, part, settings, observer).and_then(|()| check(file, part, observer));
        if resumed && matches!(got, Err(Error::Mismatch { .. })) {
            // The beginning came from an earlier try, perhaps of another source: it alone may be wrong.
            got = source.fetch(file, part, settings, observer).and_then(|()| check(file, part, observer));
        }
        match got {
            Ok(()) => return Ok(()),
            // Another source cannot help a full disk.
            Err(full @ (Error::Full { .. } | Error::Io { .. })) => return Err(full),
            Err(error) => {
                observer.note(&format!("{name}: {error}"));
                tries.push((name, error.to_string()));
            }
        }
    }
    Err(Error::AllFailed { name: file.name.clone(), tries })
}

/// A source that gave other bytes than were promised has failed like one that gave none.
fn check(file: &FileEntry, part: &mut Part, observer: &dyn Observer) -> Result<()> {
    let wrong = |what, found: String, expected: String| Error::Mismatch { name: file.name.clone(), what, found, expected };
    if part.len != file.size {
        return Err(wrong("the size", part.len.to_string(), file.size.to_string()));
    }
    let sha = sha256(&part.path)?;
    if sha != file.sha256 {
        observer.advance(-(part.len as i64));
        part.clear()?;
        return Err(wrong("the sha256", sha, file.sha256.clone()));
    }
    Ok(())
}

/// The sha256 of a file, lower-case hexadecimal.
pub(crate) fn sha256(path: &Path) -> Result<String> {
    let mut file = File::open(path).map_err(Error::io(path))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let n = file.read(&mut buffer).map_err(Error::io(path))?;
        if n == 0 {
            return Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect());
        }
        hash.update(&buffer[..n]);
    }
}

/// A client that gives up on what does not answer or go on for `stall`, and follows redirects without taking the token along.
pub(crate) fn client(stall: Duration) -> ureq::Agent {
    ureq::Agent::config_builder()
        .timeout_resolve(Some(Duration::from_secs(10)))
        .timeout_connect(Some(Duration::from_secs(15)))
        .timeout_recv_response(Some(stall))
        .timeout_per_read(Some(stall))
        .user_agent(concat!("1bit/", env!("CARGO_PKG_VERSION")))
        .http_status_as_error(false)
        .build()
        .into()
}

/// Whether reading failed because nothing came.
pub(crate) fn is_timeout(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
    error.kind() == std::io::ErrorKind::TimedOut || matches!(inner, Some(ureq::Error::Timeout(_)))
}

/// GETs `url`, from byte `from` on.
pub(crate) fn get(client: &ureq::Agent, url: &str, token: Option<&str>, from: u64) -> Result<ureq::http::Response<ureq::Body>> {
    let mut request = client.get(url);
    if let Some(token) = token {
        request = request.header("Authorization", format!("Bearer {token}"));
    }
    if from > 0 {
        request = request.header("Range", format!("bytes={from}-"));
    }
    let answer = request.call().map_err(|e| Error::Fetch(format!("{} cannot be reached: {e}", host(url))))?;
    match answer.status().as_u16() {
        200 | 206 => Ok(answer),
        // The part is longer than the file: the file changed. Without a range it is sent from the start.
        416 if from > 0 => get(client, url, token, 0),
        code @ (401 | 403) if token.is_none() => Err(Error::Fetch(format!(
            "{} answered {code}: the model may be gated or private; accept its terms on its page, then set HF_TOKEN",
            host(url)
        ))),
        code @ (401 | 403) => Err(Error::Fetch(format!("{} answered {code}: the token in HF_TOKEN may not read this model", host(url)))),
        404 => Err(Error::Fetch(format!("{} has no such file: {url}", host(url)))),
        code => Err(Error::Fetch(format!("{} answered {code} for {url}", host(url)))),
    }
}

fn host(url: &str) -> &str {
    url.split("://").nth(1).unwrap_or(url).split('/').next().unwrap_or(url)
}

/// Appends what is missing of `part` from `url`, taking broken connections up again.
pub(crate) fn http(url: &str, part: &mut Part, settings: &Settings, observer: &dyn Observer) -> Result<()> {
    let (client, token) = (client(settings.stall), settings.token.as_deref());
    let mut left = TRIES;
    while part.len < part.size {
        let before = part.len;
        let broke = match get(&client, url, token, part.len) {
            Ok(mut answer) => {
                let resumes = answer.status() == 206 && starts_at(&answer, part.len);
                if !resumes && part.len > 0 {
                    observer.advance(-(part.len as i64));
                    part.clear()?;
                }
                match part.append(&mut answer.body_mut().as_reader(), settings.stall, observer) {
                    Ok(_) if part.len == part.size => return Ok(()),
                    Ok(_) => Error::Fetch(format!("{} sent {} of {} bytes", host(url), part.len, part.size)),
                    Err(Error::Fetch(what)) => Error::Fetch(format!("{}: {what}", host(url))),
                    Err(other) => return Err(other),
                }
            }
            Err(error) => error,
        };
        left = if part.len > before { TRIES } else { left - 1 };
        // What was never reached will not be in a second either; what worked a moment ago may be.
        if left == 0 || part.len == 0 {
            return Err(broke);
        }
        observer.note(&format!("{broke}; going on from there"));
        std::thread::sleep(Duration::from_millis(500 << (TRIES - left).min(4)));
    }
    Ok(())
}

fn starts_at(answer: &ureq::http::Response<ureq::Body>, from: u64) -> bool {
    let range = answer.headers().get("content-range").and_then(|v| v.to_str().ok()).unwrap_or_default();
    range.strip_prefix("bytes ").and_then(|r| r.split('-').next()).and_then(|s| s.parse().ok()) == Some(from)
}
