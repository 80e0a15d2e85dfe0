//! How a row of an instruction table becomes functions over the lanes of a wave.
//!
//! A row reads like the ISA guide: `0x103 v_add_f32: f32(a: f32, b: f32) => a + b;`. The closure that the row makes loops over the
//! lanes; as the table is built within a function of each instruction-set level ([`cloned`]), the loop is compiled for that level.

/// Builds the rows of a vector table. `x` names the circumstances ([`super::Env`]), `l` the lane.
///
/// After `=>` stands what happens in MODE's default (nearest even, denormals kept); `modal` what happens otherwise (inputs and results
/// are flushed around it), `clamped` what the clamp bit makes of an integer operation.
macro_rules! rows {
    ($x:ident, $l:ident; $($code:literal $name:ident $([$flag:ident $(| $more:ident)*])? : $r:ident ( $($a:ident : $t:ty),* ) => $e:expr
        $(, modal $m:expr)? $(, clamped $c:expr)? ;)*) => {
        vec![$($crate::isa::Op {
            code: $code,
            name: stringify!($name),
            dst: Some(<$r as $crate::isa::value::Operand>::TY),
            src: vec![$(<$t as $crate::isa::value::Operand>::TY),*],
            flags: 0 $(| $crate::isa::flag::$flag $(| $crate::isa::flag::$more)*)?,
            run: $crate::isa::Run::Lanes($crate::isa::Lanewise {
                plain: $crate::isa::rows::lanes!($x, $l; $r; ($($a: $t),*); $e),
                modal: $crate::isa::rows::optional!($x, $l; $r; ($($a: $t),*); $($m)?),
                clamped: $crate::isa::rows::optional!($x, $l; $r; ($($a: $t),*); $($c)?),
            }),
        }),*]
    };
}

/// As [`rows`], with 64-bit operands; `r, bool` returns a mask as well.
macro_rules! wide_rows {
    ($x:ident, $l:ident; $($code:literal $name:ident $([$flag:ident $(| $more:ident)*])? : $r:ident $(, $carry:ident)? ( $($a:ident : $t:ty),* ) => $e:expr
        $(, modal $m:expr)? ;)*) => {
        vec![$($crate::isa::Op {
            code: $code,
            name: stringify!($name),
            dst: Some(<$r as $crate::isa::value::Operand>::TY),
            src: vec![$(<$t as $crate::isa::value::Operand>::TY),*],
            flags: 0 $(| { let _: &str = stringify!($carry); $crate::isa::flag::CARRY_OUT })? $(| $crate::isa::flag::$flag $(| $crate::isa::flag::$more)*)?,
            run: $crate::isa::Run::Wide($crate::isa::Widewise {
                plain: $crate::isa::rows::wide_lanes!($x, $l; $r $(, $carry)?; ($($a: $t),*); $e),
                modal: $crate::isa::rows::optional_wide!($x, $l; $r $(, $carry)?; ($($a: $t),*); $($m)?),
            }),
        }),*]
    };
}

/// As [`rows`], for operations on 32 bits that also give a mask: value and bit.
macro_rules! carry_rows {
    ($x:ident, $l:ident; $($code:literal $name:ident $([$flag:ident $(| $more:ident)*])? : $r:ident ( $($a:ident : $t:ty),* ) => $e:expr ;)*) => {
        vec![$($crate::isa::Op {
            code: $code,
            name: stringify!($name),
            dst: Some(<$r as $crate::isa::value::Operand>::TY),
            src: vec![$(<$t as $crate::isa::value::Operand>::TY),*],
            flags: $crate::isa::flag::CARRY_OUT $(| $crate::isa::flag::$flag $(| $crate::isa::flag::$more)*)?,
            run: $crate::isa::Run::Carry(|out, mask, first, second, third| {
                let _ = third;
                for $l in 0..$crate::isa::LANES {
                    let mut _sources = [u64::from(first[$l]), u64::from(second[$l]), u64::from(third[$l])].into_iter();
                    $(let $a = <$t as $crate::isa::value::Operand>::get(_sources.next().unwrap_or(0));)*
                    let (value, bit) = $e;
                    out[$l] = <$r as $crate::isa::value::Operand>::put(value) as u32;
                    mask[$l] = u32::from(bit);
                }
            }),
        }),*]
    };
}

macro_rules! optional {
    ($x:ident, $l:ident; $r:ident; $args:tt; ) => {
        None
    };
    ($x:ident, $l:ident; $r:ident; $args:tt; $e:expr) => {
        Some($crate::isa::rows::lanes!($x, $l; $r; $args; $e))
    };
}

macro_rules! optional_wide {
    ($x:ident, $l:ident; $r:ident $(, $carry:ident)?; $args:tt; ) => {
        None
    };
    ($x:ident, $l:ident; $r:ident $(, $carry:ident)?; $args:tt; $e:expr) => {
        Some($crate::isa::rows::wide_lanes!($x, $l; $r $(, $carry)?; $args; $e))
    };
}

/// A function over 32 lanes of 32 bits: result, three sources, circumstances.
macro_rules! lanes {
    ($x:ident, $l:ident; $r:ident; ($($a:ident : $t:ty),*); $e:expr) => {
        (|out: &mut $crate::isa::Lanes, first: &$crate::isa::Lanes, second: &$crate::isa::Lanes, third: &$crate::isa::Lanes, $x: &$crate::isa::Env| {
            let _ = (second, third, $x);
            for $l in 0..$crate::isa::LANES {
                let mut _sources = [u64::from(first[$l]), u64::from(second[$l]), u64::from(third[$l])].into_iter();
                $(let $a = <$t as $crate::isa::value::Operand>::get(_sources.next().unwrap_or(0));)*
                out[$l] = <$r as $crate::isa::value::Operand>::put($e) as u32;
            }
        }) as $crate::isa::LaneFn
    };
}

/// The same over 64 bits, with a mask (0 or 1 per lane) as second result.
macro_rules! wide_lanes {
    ($x:ident, $l:ident; $r:ident $(, $carry:ident)?; ($($a:ident : $t:ty),*); $e:expr) => {
        (|out: &mut $crate::isa::Wide, mask: &mut $crate::isa::Lanes, first: &$crate::isa::Wide, second: &$crate::isa::Wide, third: &$crate::isa::Wide, $x: &$crate::isa::Env| {
            let _ = (&mask, second, third, $x);
            for $l in 0..$crate::isa::LANES {
                let mut _sources = [first[$l], second[$l], third[$l]].into_iter();
                $(let $a = <$t as $crate::isa::value::Operand>::get(_sources.next().unwrap_or(0));)*
                let value = $e;
                $crate::isa::rows::store_wide!(out, mask, $l, value, $r $(, $carry)?);
            }
        }) as $crate::isa::WideFn
    };
}

macro_rules! store_wide {
    ($out:ident, $mask:ident, $l:ident, $value:ident, $r:ident) => {
        $out[$l] = <$r as $crate::isa::value::Operand>::put($value)
    };
    ($out:ident, $mask:ident, $l:ident, $value:ident, $r:ident, $carry:ident) => {{
        $out[$l] = <$r as $crate::isa::value::Operand>::put($value.0);
        $mask[$l] = u32::from($value.1);
    }};
}

/// Makes a function that builds a table once for each level of the host's instruction set and takes the one asked for.
///
/// Closures inherit the features of the function in which they stand, and a safe function pointer to one can only be made there, so
/// the call below is the one place where the host's abilities have to be known.
macro_rules! cloned {
    ($(#[$meta:meta])* $vis:vis fn $name:ident() -> $t:ty $body:block) => {
        $(#[$meta])*
        $vis fn $name(level: $crate::isa::Level) -> $t {
            fn base() -> $t $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,bmi2,popcnt,lzcnt")]
            fn avx2() -> $t $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,fma,bmi2,popcnt,lzcnt")]
            fn avx512() -> $t $body
            match level {
                // SAFETY: a level is only made by `Level::detect`, or by `Level::Base`, which needs nothing.
                #[cfg(target_arch = "x86_64")]
                $crate::isa::Level::Avx512(_) => unsafe { avx512() },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::isa::Level::Avx2(_) => unsafe { avx2() },
                _ => base(),
            }
        }
    };
}

/// The comparisons that numbers and integers have alike, as rows for macro `$table`, which `$with` is given first.
macro_rules! orders {
    ($t:ty; $table:ident $($with:tt)*) => {
        $table! { $($with)*
            1 lt(a: $t, b: $t) => a < b;
            2 eq(a: $t, b: $t) => a == b;
            3 le(a: $t, b: $t) => a <= b;
            4 gt(a: $t, b: $t) => a > b;
            6 ge(a: $t, b: $t) => a >= b;
        }
    };
}

/// Those that numbers have besides, as one may be NaN; likewise.
macro_rules! nan_orders {
    ($t:ty; $table:ident $($with:tt)*) => {
        $table! { $($with)*
            5 lg(a: $t, b: $t) => a < b || a > b;
            7 o(a: $t, b: $t) => a == a && b == b;
            8 u(a: $t, b: $t) => a != a || b != b;
            9 nge(a: $t, b: $t) => !(a >= b);
            10 nlg(a: $t, b: $t) => !(a < b || a > b);
            11 ngt(a: $t, b: $t) => !(a > b);
            12 nle(a: $t, b: $t) => !(a <= b);
            13 neq(a: $t, b: $t) => a != b;
            14 nlt(a: $t, b: $t) => !(a < b);
        }
    };
}

pub(crate) use {carry_rows, cloned, lanes, nan_orders, optional, optional_wide, orders, rows, store_wide, wide_lanes, wide_rows};
