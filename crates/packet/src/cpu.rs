//! Which instructions vector code may use: one decision for the whole process, made at its start.

use std::fmt;

/// x86-64 micro-architecture level in the sense of the psABI, as far as Quiver has code for it. Elsewhere than on
/// x86-64 there is only `V2`, code for any processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum CpuLevel {
    /// Scalar code and SSE2.
    #[default]
    V2,
    /// AVX2, BMI1, BMI2, LZCNT, POPCNT.
    V3,
    /// What `V3` has, and AVX-512 F, BW, CD, DQ, VL.
    V4,
}

impl CpuLevel {
    /// All levels, the lowest first.
    pub const ALL: [CpuLevel; 3] = [CpuLevel::V2, CpuLevel::V3, CpuLevel::V4];

    /// The best level this processor has.
    pub fn detect() -> CpuLevel {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            let v3 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt");
            let v4 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512cd")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            if v3 && v4 {
                return CpuLevel::V4;
            }
            if v3 {
                return CpuLevel::V3;
            }
        }
        CpuLevel::V2
    }

    /// This level, or the best one the processor has if that is lower.
    pub fn supported(self) -> CpuLevel {
        self.min(CpuLevel::detect())
    }

    /// The level named `v2`, `v3` or `v4`.
    pub fn from_name(name: &str) -> Option<CpuLevel> {
        CpuLevel::ALL.into_iter().find(|l| l.name() == name)
    }

    /// `v2`, `v3` or `v4`.
    pub fn name(self) -> &'static str {
        match self {
            CpuLevel::V2 => "v2",
            CpuLevel::V3 => "v3",
            CpuLevel::V4 => "v4",
        }
    }
}

/// The level of a process, and why it is that one. `Display` gives the line for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuChoice {
    /// What to use.
    pub level: CpuLevel,
    /// What was asked for, if anything.
    pub wanted: Option<CpuLevel>,
}

/// The environment variable that asks for a level.
pub const VARIABLE: &str = "QUIVER_CPU";

impl CpuChoice {
    /// What the environment variable [`VARIABLE`] asks for, at most what the processor has; all of that without
    /// the variable.
    pub fn from_env() -> Result<CpuChoice, UnknownLevel> {
        match std::env::var_os(VARIABLE) {
            None => Ok(CpuChoice::of(None)),
            Some(name) => CpuChoice::named(&name.to_string_lossy()),
        }
    }

    /// The level of that name, or the best one the processor has if that is lower.
    pub fn named(name: &str) -> Result<CpuChoice, UnknownLevel> {
        let level = CpuLevel::from_name(name).ok_or_else(|| UnknownLevel(name.into()))?;
        Ok(CpuChoice::of(Some(level)))
    }

    fn of(wanted: Option<CpuLevel>) -> CpuChoice {
        CpuChoice { level: wanted.unwrap_or(CpuLevel::V4).supported(), wanted }
    }

    /// Whether less is used than was asked for.
    pub fn is_capped(&self) -> bool {
        self.wanted.is_some_and(|w| w > self.level)
    }
}

impl fmt::Display for CpuChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.level.name();
        match self.wanted {
            None => write!(f, "instructions: x86-64-{level}, the most this processor has"),
            Some(w) if w > self.level => {
                write!(f, "instructions: x86-64-{level}, as this processor has no {} ({VARIABLE})", w.name())
            }
            Some(_) => write!(f, "instructions: x86-64-{level}, as {VARIABLE} says"),
        }
    }
}

/// The environment names a level that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownLevel(String);

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VARIABLE}={}: there are v2, v3 and v4", self.0)
    }
}

impl std::error::Error for UnknownLevel {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_names_in_order() {
        for level in CpuLevel::ALL {
            assert_eq!(CpuLevel::from_name(level.name()), Some(level));
            assert!(level.supported() <= level && level.supported() <= CpuLevel::detect());
        }
        assert!(CpuLevel::V2 < CpuLevel::V3 && CpuLevel::V3 < CpuLevel::V4);
        assert_eq!(CpuLevel::V2.supported(), CpuLevel::V2);
    }

    #[test]
    fn a_choice_is_capped_and_says_why() {
        assert_eq!(CpuChoice::of(None).level, CpuLevel::detect());
        let low = CpuChoice::named("v2").unwrap();
        assert_eq!(
            (low.level, low.is_capped(), low.to_string().as_str()),
            (CpuLevel::V2, false, "instructions: x86-64-v2, as QUIVER_CPU says")
        );
        let capped = CpuChoice { level: CpuLevel::V3, wanted: Some(CpuLevel::V4) };
        assert!(capped.is_capped());
        assert_eq!(capped.to_string(), "instructions: x86-64-v3, as this processor has no v4 (QUIVER_CPU)");
        for bad in ["", "V4", "v5", "avx2"] {
            let e = CpuChoice::named(bad).unwrap_err();
            assert_eq!(e.to_string(), format!("QUIVER_CPU={bad}: there are v2, v3 and v4"));
        }
    }
}
