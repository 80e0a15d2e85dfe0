//! Matrices handed out by columns.

use onebit_formats::{Checkpoint, Tensor, gguf::Writer};
use onebit_quants::{BF16, F32, Q8_0, WeightType};
use std::error::Error;

type Outcome = Result<(), Box<dyn Error>>;

/// A tensor that holds 0, 1, 2, ...
fn counted(ty: WeightType, shape: &[usize]) -> Result<Tensor, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("it.gguf");
    let count: usize = shape.iter().product();
    let mut bytes = vec![0; ty.bytes_for(shape).ok_or("no whole blocks")?];
    let values: Vec<f32> = (0..count).map(|i| i as f32).collect();
    ty.info().encode.ok_or("cannot be written")?(&values, None, &mut bytes);
    let mut writer = Writer::new(&path);
    writer.tensor("it", ty, shape)?;
    let mut data = writer.begin()?;
    data.write("it", &bytes)?;
    data.finish()?;
    // The file is mapped, and stays readable after its name is gone.
    Ok(Checkpoint::open(&path)?.tensor("it").ok_or("it was written")?.clone())
}

/// NumPy's `arange(6).reshape(3, 2).T`, and `arange(12).reshape(2, 3, 2).transpose(0, 2, 1)`.
#[test]
fn one_and_several() -> Outcome {
    for ty in [F32, BF16] {
        let matrix = counted(ty, &[3, 2])?.transposed(1).ok_or("possible")?;
        assert_eq!((matrix.shape(), matrix.to_f32()), (&[1, 2, 3][..], vec![0.0, 2.0, 4.0, 1.0, 3.0, 5.0]));
        let mut row = [0.0; 3];
        ty.decode(matrix.row(1, &mut vec![]), &mut row);
        assert_eq!(row, [1.0, 3.0, 5.0]);
        assert_eq!((matrix.name(), matrix.stored_names()), ("it", vec!["it"]));
        for shape in [&[6, 2][..], &[2, 3, 2]] {
            let stack = counted(ty, shape)?.transposed(2).ok_or("possible")?;
            assert_eq!(stack.shape(), [2, 2, 3]);
            assert_eq!(stack.to_f32(), [0.0, 2.0, 4.0, 1.0, 3.0, 5.0, 6.0, 8.0, 10.0, 7.0, 9.0, 11.0]);
        }
    }
    Ok(())
}

#[test]
fn impossible() -> Outcome {
    assert!(counted(F32, &[3, 4])?.transposed(2).is_none(), "3 rows are not two matrices");
    assert!(counted(F32, &[3, 4])?.transposed(0).is_none());
    assert!(counted(Q8_0, &[32, 32])?.transposed(1).is_none(), "blocks lie along rows");
    Ok(())
}
