//! What the writers write, the readers read back the same; and so do the packages `gguf`, `safetensors` and `numpy`.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::data;
use onebit_formats::{Checkpoint, Meta, Texts, gguf, npy, safetensors};
use onebit_quants::{ALL, WeightType};
use proptest::{collection, prelude::*};
use std::{collections::BTreeMap, fs, path::Path, process::Command};

fn meta() -> impl Strategy<Value = Meta> {
    let float = any::<f32>().prop_filter("NaN is not equal to itself", |v| !v.is_nan());
    prop_oneof![
        any::<u64>().prop_map(Meta::Unsigned),
        any::<u32>().prop_map(|v| Meta::Unsigned(v.into())),
        any::<i64>().prop_map(Meta::Signed),
        any::<i16>().prop_map(|v| Meta::Signed(v.into())),
        float.clone().prop_map(|v| Meta::Float(v.into())),
        any::<bool>().prop_map(Meta::Bool),
        ".{0,40}".prop_map(Meta::Text),
        collection::vec(any::<i64>(), 0..9).prop_map(Meta::Integers),
        collection::vec(any::<i32>().prop_map(i64::from), 0..9).prop_map(Meta::Integers),
        collection::vec(float, 0..9).prop_map(Meta::Floats),
        collection::vec(any::<bool>(), 0..9).prop_map(Meta::Bools),
        collection::vec(collection::vec(any::<u8>(), 0..9), 0..9).prop_map(|v| {
            let mut texts = Texts::default();
            v.iter().for_each(|t| texts.push(t));
            Meta::Texts(texts)
        }),
    ]
}

/// A tensor's type, shape and bytes; types as `keep` allows, `least` values in a dimension.
fn tensor(keep: fn(&WeightType) -> bool, dimensions: usize, least: usize) -> impl Strategy<Value = (WeightType, Vec<usize>, Vec<u8>)> {
    let types: Vec<_> = ALL.iter().copied().filter(keep).collect();
    let shape = collection::vec(least..5, 0..=dimensions);
    (0..types.len(), shape, any::<u8>()).prop_map(move |(ty, mut shape, fill)| {
        let ty = types[ty];
        match shape.last_mut() {
            Some(last) => *last *= ty.block_values(),
            None if ty.block_values() > 1 => shape.push(ty.block_values()),
            None => {}
        }
        let n = ty.bytes_for(&shape).unwrap();
        (ty, shape, (0..n).map(|i| (i as u8).wrapping_mul(31) ^ fill).collect())
    })
}

type Tensors = BTreeMap<String, (WeightType, Vec<usize>, Vec<u8>)>;

/// Gives the bytes to `data` in pieces of `piece`.
fn feed(mut data: onebit_formats::DataWriter, order: &[String], tensors: &Tensors, piece: usize) {
    for name in order {
        for some in tensors[name].2.chunks(piece) {
            assert_eq!(data.pending(), Some(name.as_str()));
            data.write(name, some).unwrap();
        }
    }
    assert_eq!(data.pending(), None);
    data.finish().unwrap();
}

fn same(path: &Path, tensors: &Tensors) -> Checkpoint {
    let c = Checkpoint::open(path).unwrap();
    assert_eq!(c.tensors.len(), tensors.len());
    for (name, (ty, shape, bytes)) in tensors {
        let t = &c.tensors[name];
        assert_eq!((t.ty(), t.shape(), &*t.bytes()), (*ty, &shape[..], &bytes[..]));
    }
    c
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn gguf_comes_back(
        pairs in collection::btree_map("[a-z._]{1,20}", meta(), 0..8),
        tensors in collection::btree_map("[a-z.]{1,20}", tensor(|t| t.info().ggml_id.is_some(), 4, 1), 0..6),
        backwards in any::<bool>(),
        piece in 1..5000usize,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.gguf");
        let mut order: Vec<_> = tensors.keys().cloned().collect();
        if backwards {
            order.reverse();
        }
        let mut writer = gguf::Writer::new(&path);
        for (key, value) in &pairs {
            writer.pair(key, value).unwrap();
        }
        for name in &order {
            writer.tensor(name, tensors[name].0, &tensors[name].1).unwrap();
        }
        let size = writer.size();
        feed(writer.begin().unwrap(), &order, &tensors, piece);
        prop_assert_eq!(fs::metadata(&path).unwrap().len(), size);
        let c = same(&path, &tensors);
        prop_assert_eq!(c.metadata.pairs, pairs);
        prop_assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn safetensors_comes_back(
        texts in collection::btree_map(".{0,20}", ".{0,20}", 0..4),
        tensors in collection::btree_map(".{1,20}", tensor(|t| t.block_values() == 1, 5, 0), 0..6),
        piece in 1..100usize,
    ) {
        prop_assume!(!tensors.contains_key("__metadata__"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        let order: Vec<_> = tensors.keys().cloned().collect();
        let mut writer = safetensors::Writer::new(&path);
        for (name, text) in &texts {
            writer.text(name, text);
        }
        for name in &order {
            writer.tensor(name, tensors[name].0, &tensors[name].1).unwrap();
        }
        feed(writer.begin().unwrap(), &order, &tensors, piece);
        same(&path, &tensors);
    }
}

fn ty(name: &str) -> WeightType {
    WeightType::by_name(name).unwrap()
}

#[test]
fn gguf_writer_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.gguf");
    let mut w = gguf::Writer::new(&path);
    w.pair("a", &Meta::Bool(true)).unwrap();
    w.tensor("x", ty("F32"), &[2, 3]).unwrap();
    let long = "n".repeat(64);
    let faults = [
        (w.pair("a", &Meta::Bool(true)), "metadata `a` is declared twice"),
        (w.pair("", &Meta::Bool(true)), "metadata key `` has 0 bytes"),
        (w.pair("general.alignment", &Meta::Unsigned(8)), "`general.alignment` is set by the writer (32)"),
        (w.bytes("a", &[1]), "metadata `a` is declared twice"),
        (w.tensor("x", ty("F32"), &[2]), "tensor `x` is declared twice"),
        (w.tensor("", ty("F32"), &[2]), "has a name of 0 bytes"),
        (w.tensor(&long, ty("F32"), &[2]), "has a name of 64 bytes; it may have 1 to 63"),
        (w.tensor("y", ty("U8"), &[2]), "tensor `y` has type U8, which GGUF does not have"),
        (w.tensor("y", ty("Q8_0"), &[2, 33]), "whose rows blocks of 32 (Q8_0) do not divide"),
        (w.tensor("y", ty("F32"), &[2, 0]), "tensor `y` has shape [2, 0]"),
        (w.tensor("y", ty("F32"), &[1; 5]), "tensor `y` has shape [1, 1, 1, 1, 1]; up to 4"),
        (w.tensor("y", ty("F32"), &[1 << 40, 1 << 40]), "which is more bytes than can be"),
    ];
    for (outcome, want) in faults {
        let text = outcome.unwrap_err().to_string();
        assert!(text.contains(want), "{text}");
    }
    // What was refused left no trace.
    let mut data = w.begin().unwrap();
    assert!(data.write("y", &[0]).unwrap_err().to_string().contains("data came for tensor `y`, but `x` is next"));
    data.write("x", &[0; 20]).unwrap();
    assert!(data.write("x", &[0; 5]).unwrap_err().to_string().contains("tensor `x` has 24 bytes, but 25 came"));
    data.write("x", &[0; 4]).unwrap();
    assert!(data.write("x", &[0]).unwrap_err().to_string().contains("all tensors are written"));
    assert!(!path.exists(), "the file appears when it is whole");
    data.finish().unwrap();
    let c = Checkpoint::open(&path).unwrap();
    assert_eq!((c.tensors.len(), c.metadata.pairs.len()), (1, 1));
}

#[test]
fn an_unfinished_file_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.gguf");
    fs::write(&path, "old").unwrap();
    let begin = || {
        let mut w = gguf::Writer::new(&path);
        w.tensor("x", ty("F32"), &[2]).unwrap();
        w.begin().unwrap()
    };
    let text = begin().finish().unwrap_err().to_string();
    assert!(text.contains("tensor `x` has 8 bytes, but only 0 came"), "{text}");
    let mut data = begin();
    data.write("x", &[0; 4]).unwrap();
    drop(data);
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let mut data = begin();
    data.write("x", &[0; 8]).unwrap();
    data.finish().unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(Checkpoint::open(&path).unwrap().tensors.len(), 1, "the old file is replaced");
}

#[test]
fn places_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let text = npy::Writer::create(folder.path(), &[1]).unwrap_err().to_string();
    assert!(text.ends_with("is a folder; a file is to be written here"), "{text}");
    let text = npy::Writer::create(folder.path().join("none/x.npy"), &[1]).unwrap_err().to_string();
    assert!(text.contains("none/") && text.contains("No such file"), "{text}");
    // More than any disk has: refused at once, by number.
    let mut w = gguf::Writer::new(folder.path().join("x.gguf"));
    w.tensor("x", ty("F32"), &[1 << 50]).unwrap();
    let size = w.size();
    let text = w.begin().unwrap_err().to_string();
    assert!(text.contains(&format!("cannot be written: {size} bytes are needed")), "{text}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // A full disk is noticed where nothing can be reserved, too.
    let mut npy = npy::Writer::create("/dev/full", &[1 << 20]).unwrap();
    let outcome = npy.write(&vec![0.0; 1 << 20]).and_then(|()| npy.finish());
    let text = outcome.unwrap_err().to_string();
    assert!(text.starts_with("/dev/full: cannot be written") && text.contains("free some space"), "{text}");
    // Devices are written as they are, not replaced.
    let mut npy = npy::Writer::create("/dev/null", &[1]).unwrap();
    npy.write(&[1.0]).unwrap();
    npy.finish().unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    // Through a link.
    let link = folder.path().join("link.npy");
    fs::write(folder.path().join("real.npy"), "").unwrap();
    std::os::unix::fs::symlink("real.npy", &link).unwrap();
    npy::Writer::create(&link, &[0]).unwrap().finish().unwrap();
    assert!(link.is_symlink() && fs::metadata(folder.path().join("real.npy")).unwrap().len() == 128);
}

/// `np.save` of numpy 2.4 writes these headers.
#[test]
fn npy_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npy");
    for (shape, text) in
        [(&[2, 3][..], "(2, 3)"), (&[5][..], "(5,)"), (&[][..], "()"), (&[0, 7][..], "(0, 7)"), (&[1, 2, 3][..], "(1, 2, 3)")]
    {
        let values: Vec<f32> = (0..shape.iter().product()).map(|v| v as f32 - 0.5).collect();
        let mut w = npy::Writer::create(&path, shape).unwrap();
        values.chunks(2).for_each(|v| w.write(v).unwrap());
        assert!(w.write(&[0.0]).unwrap_err().to_string().contains("more values came than shape"));
        w.finish().unwrap();
        let dict = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {text}, }}");
        let mut want = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        want.extend(format!("{dict:117}\n").bytes());
        want.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        assert_eq!(fs::read(&path).unwrap(), want, "{text}");
    }
    let text = npy::Writer::create(&path, &[2]).unwrap().finish().unwrap_err().to_string();
    assert!(text.contains("2 values of shape [2] are missing"), "{text}");
    assert!(npy::Writer::create(&path, &[usize::MAX, 2]).is_err());
}

/// A Python that has `gguf`, `safetensors` and `numpy`: `ONEBIT_PYTHON`, or `python3`.
fn python() -> Option<String> {
    let python = std::env::var("ONEBIT_PYTHON").unwrap_or_else(|_| "python3".into());
    let found = Command::new(&python).args(["-c", "import gguf, safetensors, numpy"]).output().is_ok_and(|o| o.status.success());
    if !found {
        eprintln!("SKIPPED: {python} (ONEBIT_PYTHON) has not the packages gguf, safetensors and numpy");
    }
    found.then_some(python)
}

/// The packages themselves read our files; they print what they found as JSON.
#[test]
fn other_packages_read_our_files() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // Every pair and tensor of the package's own file goes through our reader and writer.
    let c = Checkpoint::open(data("kinds.gguf")).unwrap();
    let mut w = gguf::Writer::new(at("x.gguf"));
    c.metadata.pairs.iter().for_each(|(k, v)| w.pair(k, v).unwrap());
    w.bytes("b", &[1, 255]).unwrap();
    c.tensors.values().for_each(|t| w.tensor(t.name(), t.ty(), t.shape()).unwrap());
    let mut d = w.begin().unwrap();
    c.tensors.values().for_each(|t| d.write(t.name(), &t.bytes()).unwrap());
    d.finish().unwrap();
    let c = Checkpoint::open(data("kinds.safetensors")).unwrap();
    let numpy = |t: &&onebit_formats::Tensor| !["BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0"].contains(&t.ty().name());
    let mut w = safetensors::Writer::new(at("x.safetensors"));
    w.text("format", "pt");
    c.tensors.values().filter(numpy).for_each(|t| w.tensor(t.name(), t.ty(), t.shape()).unwrap());
    let mut d = w.begin().unwrap();
    c.tensors.values().filter(numpy).filter(|t| !t.bytes().is_empty()).for_each(|t| d.write(t.name(), &t.bytes()).unwrap());
    d.finish().unwrap();
    let mut w = npy::Writer::create(at("x.npy"), &[2, 3]).unwrap();
    w.write(&[0.5, 1.0, -2.0, 3.0, 4.0, 5.0]).unwrap();
    w.finish().unwrap();
    let out = Command::new(python).arg(data("read.py")).args([folder.path(), &data("")]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}
