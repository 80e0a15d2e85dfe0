//! Where rows are in a prompt.

use onebit_text::Tokenizer;
use onebit_vision::{Picture, Prepared, Processor, Result, Run, Seen, place};
use serde_json::{Map, json};

/// What is written around images, and where: `[x]` is the mark, `x` stands for a row in `<x|x>`.
#[derive(Debug)]
struct Marks;

impl Processor for Marks {
    fn prepare(&self, _: &Picture) -> Result<Prepared> {
        Ok(Prepared::default())
    }
    fn most_patches(&self) -> usize {
        1
    }
    fn most_rows(&self) -> usize {
        1
    }
    fn mark(&self) -> &str {
        "[x]"
    }
    fn token(&self) -> &str {
        "<x>"
    }
}

fn seen(text: &str, offsets: &[[u32; 3]], advance: u32) -> Seen {
    let count = text.matches("<x>").count();
    Seen { rows: vec![0.0; count].into(), count, text: text.into(), offsets: offsets.to_vec(), advance }
}

/// Each ASCII character is its own token, and `<x>` is 200 if it is there at all.
fn tokenizer(knows: bool) -> Tokenizer {
    let vocabulary: Map<_, _> = (33..127u8).map(|b| (char::from(b).to_string(), b.into())).collect();
    let added = json!({ "id": 200, "content": "<x>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true });
    let whole = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": if knows { vec![added] } else { vec![] },
        "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
        "model": { "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
                   "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": [] },
    });
    Tokenizer::from_json(&whole.to_string(), None).expect("a valid tokenizer")
}

fn run(start: usize, len: usize, image: usize, first: usize) -> Run {
    Run { start, len, image, first }
}

#[test]
fn rows_are_where_tokens_are() -> Result<()> {
    // Two images side by side, and one whose rows come in two runs.
    let images = [seen("<x><x>", &[], 0), seen("<x>", &[], 0), seen("<<x><x>|<x>>", &[], 0)];
    for (knows, id) in [(true, 200), (false, 0)] {
        let placed = place(["a[x][x]b", "c[x]"], &images, &Marks, &tokenizer(knows), false)?;
        let letters = |text: &str| text.bytes().map(|b| if b == b'x' { id } else { u32::from(b) }).collect::<Vec<_>>();
        assert_eq!(placed.ids, letters("axxxbc<xx|x>"));
        assert_eq!(placed.runs, [run(1, 2, 0, 0), run(3, 1, 1, 0), run(7, 2, 2, 0), run(10, 1, 2, 2)]);
        assert!(placed.axes.is_empty());
    }
    Ok(())
}

/// Figure 3 of Qwen2-VL's paper: text, an image of 2 x 3 blocks, text that goes on behind the longer side.
#[test]
fn positions_spread_over_images() -> Result<()> {
    let offsets = [[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 1, 0], [0, 1, 1], [0, 1, 2]];
    let images = [seen(&"<x>".repeat(6), &offsets, 3)];
    let placed = place(["ab[x]cd"], &images, &Marks, &tokenizer(true), false)?;
    let axes: Vec<[u32; 3]> = placed.axes.iter().map(|[t, h, w, _]| [*t, *h, *w]).collect();
    let image = [[2, 2, 2], [2, 2, 3], [2, 2, 4], [2, 3, 2], [2, 3, 3], [2, 3, 4]];
    assert_eq!(axes, [&[[0; 3], [1; 3]][..], &image, &[[5; 3], [6; 3]]].concat());
    Ok(())
}

#[test]
fn marks_and_images_must_agree() {
    let one = seen("<x>", &[], 0);
    for (prompt, images, says) in [
        ("a", vec![&one], "the prompt has places for 0 images, but there are 1"),
        ("[x][x]", vec![&one], "the prompt has places for 2 images, but there are 1"),
        ("<x>[x]", vec![&one], "the prompt has 2 tokens of images for 1 rows of them"),
    ] {
        let error = place([prompt], &images, &Marks, &tokenizer(true), false).expect_err("refused");
        assert_eq!(error.to_string(), says);
    }
}
