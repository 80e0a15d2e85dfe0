//! Reading and resampling against Pillow (`tools/oracles/pictures.py` made `data`), and images that are broken or too large.

use base64::{Engine, prelude::BASE64_STANDARD};
use onebit_vision::{Error, Filter, Limits, Picture, data_url};
use serde_json::Value;
use std::path::PathBuf;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn expected() -> Value {
    serde_json::from_slice(&std::fs::read(data("pictures.json")).expect("made by the script")).expect("made by the script")
}

fn pixels(of: &Value) -> Vec<u8> {
    BASE64_STANDARD.decode(of["pixels"].as_str().expect("made by the script")).expect("made by the script")
}

fn size(of: &Value) -> [usize; 2] {
    [0, 1].map(|i| of[i].as_u64().expect("made by the script") as usize)
}

/// The picture that `formula` of the script makes.
fn formula(height: usize, width: usize) -> Picture {
    let value = |y: usize, x: usize, c: usize| {
        let wave = ((x * (3 + c) + y * 2) % 61) as i64 - 30;
        let noise = ((x * 5 + y * 11 * (c + 1) + x * y) % 37) as i64;
        (128 + (90 * wave).div_euclid(30) + noise - 18).clamp(0, 255) as u8
    };
    let pixels = (0..height).flat_map(|y| (0..width).flat_map(move |x| (0..3).map(move |c| value(y, x, c)))).collect();
    Picture { width, height, pixels }
}

#[test]
fn files_are_read_as_pillow_reads_them() -> Outcome {
    let mut faults = vec![];
    for (name, wanted) in expected()["read"].as_object().unwrap() {
        let picture = Picture::decode(&std::fs::read(data(name))?, Limits::default())?;
        assert_eq!([picture.height, picture.width], size(&wanted["size"]), "{name}");
        let worst = picture.pixels.iter().zip(pixels(wanted)).map(|(a, b)| a.abs_diff(b)).max();
        // Lossy formats leave rounding and the filter between colours to the decoder.
        let allowed = if name.ends_with(".jpg") { 2 } else { u8::from(name == "soft.webp") * 4 };
        if worst > Some(allowed) {
            faults.push(format!("{name} is {worst:?} off"));
        }
    }
    assert!(faults.is_empty(), "{faults:?}");
    Ok(())
}

#[test]
fn resampling_is_pillows_bit_for_bit() {
    for wanted in expected()["resized"].as_array().unwrap() {
        let filter = Filter::from_pillow(wanted["filter"].as_u64().unwrap()).unwrap();
        let ([height, width], [to_height, to_width]) = (size(&wanted["from"]), size(&wanted["to"]));
        let found = formula(height, width).resize(to_height, to_width, filter);
        assert_eq!(found.pixels, pixels(wanted), "{filter:?} {height} x {width} to {to_height} x {to_width}");
    }
}

/// A PNG whose header claims this size, with a checksum that fits.
fn claims(width: u32, height: u32) -> Vec<u8> {
    let mut png = std::fs::read(data("rgb.png")).expect("made by the script");
    png[16..20].copy_from_slice(&width.to_be_bytes());
    png[20..24].copy_from_slice(&height.to_be_bytes());
    let crc = png[12..29]
        .iter()
        .fold(u32::MAX, |crc, b| (0..8).fold(crc ^ u32::from(*b), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 }));
    png[29..33].copy_from_slice(&(!crc).to_be_bytes());
    png
}

fn refusal(bytes: &[u8], limits: Limits) -> Error {
    Picture::decode(bytes, limits).expect_err("refused")
}

#[test]
fn what_is_too_large_is_refused_before_it_is_decoded() {
    let png = std::fs::read(data("rgb.png")).unwrap();
    let error = refusal(&png, Limits { bytes: 100, ..Limits::default() });
    assert_eq!(error.to_string(), format!("the image has {} bytes; at most 100 are allowed", png.len()));
    let error = refusal(&png, Limits { pixels: 116, ..Limits::default() });
    assert_eq!(error.to_string(), "the image has 13 x 9 pixels; at most 116 are allowed");
    assert!(Picture::decode(&png, Limits { pixels: 117, ..Limits::default() }).is_ok());
    // A bomb: few bytes that claim to be much.
    for (width, height) in [(100_000, 100_000), (u32::MAX >> 1, u32::MAX >> 1), (1 << 31, 1)] {
        let begun = std::time::Instant::now();
        let error = refusal(&claims(width, height), Limits::default());
        assert!(matches!(error, Error::TooLarge(_) | Error::Invalid(_)), "{error}");
        assert!(begun.elapsed().as_secs() < 5);
    }
}

#[test]
fn what_is_broken_is_refused() {
    for (bytes, says) in [
        (&b""[..], "no PNG, JPEG, WebP, GIF or BMP"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "no PNG, JPEG, WebP, GIF or BMP"),
        (b"%PDF-1.7", "no PNG, JPEG, WebP, GIF or BMP"),
        (b"\x89PNG\r\n\x1a\n", "cannot be decoded"),
        (b"\xff\xd8\xff\xe0", "cannot be decoded"),
        (b"GIF89a", "cannot be decoded"),
        (b"RIFF\x04\0\0\0WEBPVP8 ", "cannot be decoded"),
        (&claims(0, 9), "cannot be decoded"),
    ] {
        let error = refusal(bytes, Limits::default()).to_string();
        assert!(error.contains(says), "{error}");
    }
}

/// Every file, cut at every byte and with every byte changed: an answer, and no panic.
#[test]
fn mutations_do_no_harm() -> Outcome {
    let limits = Limits { bytes: 1 << 16, pixels: 10_000 };
    for name in expected()["read"].as_object().unwrap().keys() {
        let whole = std::fs::read(data(name))?;
        for at in 0..whole.len() {
            let _ = Picture::decode(&whole[..at], limits);
            for change in [1, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at] ^= change;
                if let Ok(picture) = Picture::decode(&changed, limits) {
                    assert!(picture.width * picture.height <= limits.pixels);
                    assert_eq!(picture.pixels.len(), picture.width * picture.height * 3);
                }
            }
        }
    }
    Ok(())
}

#[test]
fn data_urls() {
    let limits = Limits { bytes: 30, ..Limits::default() };
    let read = |url: &str| data_url(url, limits).map(|bytes| bytes.map_err(|error| error.to_string()));
    assert_eq!(read("https://example.com/a.png"), None);
    assert_eq!(read("dat"), None);
    for good in ["data:image/png;base64,aGVsbG8=", "DATA:;Base64,aGVsbG8", "data:image/png;charset=x;base64,aGVs\r\n bG8="] {
        assert_eq!(read(good), Some(Ok(b"hello".to_vec())), "{good}");
    }
    for (bad, says) in [
        ("data:image/png;base64", "has no comma"),
        ("data:image/png,abc", "is not in Base64"),
        ("data:image/png;base64,a*b", "is not valid Base64"),
        (&format!("data:;base64,{}", "A".repeat(400)), "longer than the 30 bytes"),
    ] {
        let error = read(bad).unwrap().unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}
