use super::{Check, Operator};
use crate::{Graph, Result, Value};
use serde::Serialize;

/// `out[i] = f(x[i])`.
#[derive(Clone, Debug, Serialize)]
pub struct Elementwise {
    /// The input.
    pub x: Value,
    /// The function.
    pub f: Function,
    /// The output, as wide as `x`.
    pub out: Value,
}

impl Operator for Elementwise {
    fn name(&self) -> &'static str {
        match self.f {
            Function::Silu => "silu",
            Function::Gelu => "gelu",
            Function::GeluTanh => "gelu_tanh",
            Function::QuickGelu => "quick_gelu",
            Function::Relu => "relu",
            Function::ReluSquared => "relu_squared",
            Function::Sigmoid => "sigmoid",
            Function::Softplus => "softplus",
            Function::Tanh => "tanh",
            Function::Exp => "exp",
            Function::SignedSqrt => "signed_sqrt",
        }
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.x]
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.as_wide_as(self.x)
    }
}

impl Graph<'_> {
    /// A function of each number.
    pub fn apply(&mut self, x: Value, f: Function) -> Value {
        self.op(self.width(x), Some(x), |out| Elementwise { x, f, out })
    }
}

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Function {
    /// `x * sigmoid(x)`.
    Silu,
    /// `x * Phi(x)`, with the error function.
    Gelu,
    /// The tanh approximation of `Gelu` (Hendrycks & Gimpel 2016, arXiv:1606.08415).
    GeluTanh,
    /// `x * sigmoid(1.702 x)` (Hendrycks & Gimpel 2016, arXiv:1606.08415).
    QuickGelu,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)^2`.
    ReluSquared,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `ln(1 + exp(x))`, and `x` above 20.
    Softplus,
    /// Hyperbolic tangent.
    Tanh,
    /// `e^x`.
    Exp,
    /// `sign(x) * sqrt(max(|x|, 1e-6))`, and 0 at 0.
    SignedSqrt,
}

impl Function {
    /// The value at `x`, in f32 arithmetic.
    pub fn apply(self, x: f32) -> f32 {
        match self {
            Self::Silu => x / (1.0 + (-x).exp()),
            Self::Gelu => 0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2)),
            Self::GeluTanh => 0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044715 * x * x * x)).tanh()),
            Self::QuickGelu => x / (1.0 + (-1.702 * x).exp()),
            Self::Relu => x.max(0.0),
            Self::ReluSquared => x.max(0.0) * x.max(0.0),
            Self::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Self::Softplus => {
                if x > 20.0 {
                    x
                } else {
                    x.exp().ln_1p()
                }
            }
            Self::Tanh => x.tanh(),
            Self::Exp => x.exp(),
            Self::SignedSqrt if x == 0.0 => 0.0,
            Self::SignedSqrt => x.abs().max(1e-6).sqrt().copysign(x),
        }
    }
}

/// The error function to f32 accuracy: the Maclaurin series below 2.5, a continued fraction of the complement above.
fn erf(x: f32) -> f32 {
    let x = f64::from(x);
    let a = x.abs();
    let y = if a < 2.5 {
        let (mut term, mut sum) = (a, a);
        for n in 1..40 {
            term *= -a * a / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    } else if a < 6.0 {
        let fraction = (1..60).rev().fold(0.0, |c, n| f64::from(n) / 2.0 / (a + c));
        1.0 - (-a * a).exp() / ((a + fraction) * std::f64::consts::PI.sqrt())
    } else {
        1.0
    };
    y.copysign(x) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values from Python's `math.erf`.
    #[test]
    fn error_function() {
        for (x, y) in [
            (0.0, 0.0),
            (0.5, 0.5204998778130465),
            (1.0, 0.8427007929497149),
            (2.4, 0.9993114861033549),
            (2.6, 0.9997639655834707),
            (-1.5, -0.9661051464753108),
        ] {
            assert!((erf(x) - y as f32).abs() < 1e-7, "erf({x}) = {}", erf(x));
        }
    }
}
