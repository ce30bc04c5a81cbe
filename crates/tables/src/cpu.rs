//! Which instructions the batch lookups may use.

/// x86-64 micro-architecture level, in the sense of the psABI, as far as lookups care.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum CpuLevel {
    /// Scalar code with prefetching; runs everywhere.
    #[default]
    V2,
    /// AVX2.
    V3,
    /// AVX-512 (F, BW, DQ, VL).
    V4,
}

impl CpuLevel {
    /// The best level this processor has.
    pub fn detect() -> CpuLevel {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            let v3 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2");
            let v4 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
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
        match name {
            "v2" => Some(CpuLevel::V2),
            "v3" => Some(CpuLevel::V3),
            "v4" => Some(CpuLevel::V4),
            _ => None,
        }
    }
}
