//! The tables of grid points that kernels have are those of `onebit-quants`.

#![allow(clippy::unwrap_used)] // helpers outside of #[test] functions

use onebit_quants::{Codes, IQ1_S, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, WeightType};
use std::{fmt::Write, path::Path};

/// A grid: its header, its type, points, numbers of each, and the block that has point `i` first, without signs.
struct Grid {
    header: &'static str,
    ty: WeightType,
    points: usize,
    numbers: usize,
    put: fn(&mut [u8], usize),
    /// What is added to each number: 9 where they are eighths from -8 to 8, as one that is shifted by an eighth is stored.
    plus: i8,
}

const GRIDS: [Grid; 6] = [
    Grid { header: "iq2_xxs", ty: IQ2_XXS, points: 256, numbers: 8, put: |b, i| b[2] = i as u8, plus: 0 },
    Grid { header: "iq2_xs", ty: IQ2_XS, points: 512, numbers: 8, put: |b, i| b[2..4].copy_from_slice(&(i as u16).to_le_bytes()), plus: 0 },
    Grid { header: "iq2_s", ty: IQ2_S, points: 1024, numbers: 8, put: |b, i| (b[2], b[66]) = (i as u8, (i >> 8) as u8), plus: 0 },
    Grid { header: "iq3_xxs", ty: IQ3_XXS, points: 256, numbers: 4, put: |b, i| b[2] = i as u8, plus: 0 },
    Grid { header: "iq3_s", ty: IQ3_S, points: 512, numbers: 4, put: |b, i| (b[2], b[66]) = (i as u8, (i >> 8) as u8), plus: 0 },
    // Numbers come one eighth up: 8 t + 1; 8 is added so that they are not negative, and the shift down takes 2 off.
    Grid { header: "iq1", ty: IQ1_S, points: 2048, numbers: 8, put: |b, i| (b[2], b[34]) = (i as u8, (i >> 8) as u8), plus: 7 },
];

fn text(grid: &Grid) -> String {
    let (kind, digits, a_line) = if grid.numbers == 8 { ("u64", 16, 6) } else { ("u32", 8, 11) };
    let name = grid.ty.name();
    let mut out = format!(
        "// Points of {}, lowest byte first; made by `GPU_WRITE=1 cargo test -p onebit-gpu --test grids`.\n#pragma once\n#include \"../target.h\"\n\nTABLE {kind} GRID[{}] = {{",
        if grid.plus == 0 { name } else { "IQ1_S and IQ1_M in eighths, 8 added" },
        grid.points
    );
    let mut codes = Codes::default();
    for i in 0..grid.points {
        let mut block = vec![0; grid.ty.block_bytes()];
        (grid.put)(&mut block, i);
        (grid.ty.info().codes.unwrap())(&[], &block, &mut codes);
        let point = codes.codes[..grid.numbers].iter().rev().fold(0u64, |n, q| n << 8 | u64::from((q + grid.plus) as u8));
        let before = if i % a_line == 0 { "\n    " } else { " " };
        write!(out, "{before}0x{point:0digits$x},").unwrap();
    }
    out.push_str("\n};\n");
    out
}

#[test]
fn headers_are_current() {
    for grid in &GRIDS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("kernels/weights/grid_{}.h", grid.header));
        let text = text(grid);
        if std::env::var_os("GPU_WRITE").is_some() {
            std::fs::write(&path, text).unwrap();
        } else {
            assert!(
                std::fs::read_to_string(&path).unwrap() == text,
                "{}: GPU_WRITE=1 cargo test -p onebit-gpu --test grids",
                path.display()
            );
        }
    }
}
