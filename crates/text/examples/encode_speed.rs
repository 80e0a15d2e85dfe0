//! Encodes files and says how long it took: `tools/tokenizer_speed.py` compares that with other libraries.
//!
//! `encode_speed FOLDER`, with a `tokenizer.json`; then for each line of stdin, the path of a text: one line of seconds and the
//! number of ids.
#![allow(missing_docs)]

use onebit_text::{Encode, Tokenizer};
use std::{
    collections::HashMap,
    env,
    error::Error,
    fs,
    io::{self, Write},
    path::Path,
    time::Instant,
};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args().nth(1).ok_or("usage: encode_speed FOLDER")?;
    let tokenizer = Tokenizer::from_json(&fs::read_to_string(Path::new(&folder).join("tokenizer.json"))?, None)?;
    let mut out = io::stdout().lock();
    let mut texts: HashMap<String, String> = HashMap::new();
    for line in io::stdin().lines() {
        let path = line?;
        if !texts.contains_key(&path) {
            texts.insert(path.clone(), fs::read_to_string(&path)?);
        }
        let begin = Instant::now();
        let ids = tokenizer.encode(&texts[&path], Encode::default());
        writeln!(out, "{} {}", begin.elapsed().as_secs_f64(), ids.len())?;
        out.flush()?;
    }
    Ok(())
}
