//! The knobs of DCQCN, under the names that NICs give them, and the sets that are in use.

use crate::units::{Duration, Rate};

/// Which description of the reaction point is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// As published at SIGCOMM'15: every CNP cuts at once, by the alpha from before it.
    Sigcomm15,
    /// A model of the knobs of ConnectX NICs: cuts and updates of alpha happen at fixed periods.
    Nvidia,
    /// As [`Algorithm::Nvidia`] in the HPCC ns-3 simulator: no byte counter, one step of additive
    /// increase and then hyper increase, the stage compared before it is counted.
    Hpcc,
}

impl Algorithm {
    /// All of them, by the names that scenario files use.
    pub const ALL: [(&'static str, Algorithm); 3] =
        [("sigcomm15", Algorithm::Sigcomm15), ("nvidia", Algorithm::Nvidia), ("hpcc", Algorithm::Hpcc)];

    /// Its name in scenario files.
    pub fn as_str(self) -> &'static str {
        Algorithm::ALL.iter().find(|(_, a)| *a == self).map_or("", |(name, _)| name)
    }
}

/// A set of knobs that somebody uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// The defaults of today's ConnectX firmware.
    Nvidia,
    /// The deployment that the SIGCOMM'15 paper describes.
    Sigcomm15,
    /// `run.py --cc dcqcn` of the HPCC simulator; increases grow with the line rate.
    Hpcc,
    /// `run.py --cc dcqcn_paper` of the HPCC simulator.
    HpccPaper,
    /// The defaults of the Open Traffic Generator model that Keysight's generators take; rates are
    /// shares of the line rate.
    Keysight,
    /// The defaults of Spirent's profile; what it leaves open is as in [`Preset::Nvidia`].
    Spirent,
}

impl Preset {
    /// All of them, by the names that scenario files use.
    pub const ALL: [(&'static str, Preset); 6] = [
        ("nvidia", Preset::Nvidia),
        ("sigcomm15", Preset::Sigcomm15),
        ("hpcc", Preset::Hpcc),
        ("hpcc-paper", Preset::HpccPaper),
        ("keysight", Preset::Keysight),
        ("spirent", Preset::Spirent),
    ];

    /// Its name in scenario files.
    pub fn as_str(self) -> &'static str {
        Preset::ALL.iter().find(|(_, p)| *p == self).map_or("", |(name, _)| name)
    }

    /// Its knobs on a port of this line rate.
    pub fn params(self, line: Rate) -> DcqcnParams {
        let nvidia = DcqcnParams::NVIDIA;
        let mbps = line.bps() / 1_000_000;
        // Whole Mb/s, but never none at all.
        let share = |parts: u64, of: u64| u32::try_from(mbps * parts / of).unwrap_or(u32::MAX).max(1);
        match self {
            Preset::Nvidia => nvidia,
            Preset::Sigcomm15 => DcqcnParams {
                algorithm: Algorithm::Sigcomm15,
                rpg_time_reset: 55,
                rpg_byte_reset: 156_250,
                rpg_threshold: 5,
                rpg_ai_rate: 40,
                rpg_hai_rate: 200,
                rpg_min_rate: 100,
                rpg_min_dec_fac: 0,
                dce_tcp_g: 1020,
                dce_tcp_rtt: 55,
                rate_reduce_monitor_period: 0,
                initial_alpha_value: 1024,
                clamp_tgt_rate: true,
                clamp_tgt_rate_after_time_inc: false,
                ..nvidia
            },
            Preset::Hpcc => DcqcnParams {
                algorithm: Algorithm::Hpcc,
                rpg_time_reset: 300,
                rpg_byte_reset: 0,
                rpg_threshold: 1,
                rpg_ai_rate: share(5, 25_000),
                rpg_hai_rate: share(50, 25_000),
                rpg_min_rate: 1000,
                rpg_min_dec_fac: 0,
                dce_tcp_g: 1020,
                dce_tcp_rtt: 1,
                rate_reduce_monitor_period: 4,
                initial_alpha_value: 1024,
                ..nvidia
            },
            Preset::HpccPaper => DcqcnParams {
                rpg_time_reset: 55,
                dce_tcp_rtt: 50,
                rate_reduce_monitor_period: 50,
                ..Preset::Hpcc.params(line)
            },
            Preset::Keysight => DcqcnParams {
                rpg_time_reset: 250,
                rpg_threshold: 25,
                rpg_ai_rate: share(1, 100_000),
                rpg_hai_rate: share(1, 100_000),
                rpg_min_rate: share(2, 100_000),
                rate_to_set_on_first_cnp: share(2, 100_000),
                // It states the most that a cut takes, 10 %.
                rpg_min_dec_fac: 90,
                dce_tcp_rtt: 21,
                rate_reduce_monitor_period: 21,
                clamp_tgt_rate_after_time_inc: false,
                ..nvidia
            },
            Preset::Spirent => DcqcnParams {
                rpg_byte_reset: 31_250,
                rpg_hai_rate: 40,
                rpg_min_rate: 2,
                dce_tcp_rtt: 1550,
                min_alpha_value: 1,
                ..nvidia
            },
        }
    }

    /// The time between CNPs that belongs to it.
    pub fn min_time_between_cnps(self) -> Duration {
        Duration::from_micros(match self {
            Preset::Nvidia => 4,
            // The simulator has no such timer.
            Preset::Hpcc | Preset::HpccPaper => 0,
            Preset::Sigcomm15 | Preset::Spirent => 50,
            Preset::Keysight => 55,
        })
    }
}

/// A knob that is a whole number.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// Its name.
    pub name: &'static str,
    /// What it counts.
    pub unit: &'static str,
    /// Its bounds, both included.
    pub range: (u32, u32),
    /// Its value.
    pub get: fn(&DcqcnParams) -> u32,
    /// Gives it a value.
    pub set: fn(&mut DcqcnParams, u32),
}

macro_rules! knobs {
    ($($(#[$doc:meta])* $name:ident: $min:literal ..= $max:literal, $unit:literal;)*) => {
        /// The knobs of a reaction point.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct DcqcnParams {
            /// Which description is followed.
            pub algorithm: Algorithm,
            $($(#[$doc])* pub $name: u32,)*
            /// Every cut sets the target rate to the rate from before it.
            pub clamp_tgt_rate: bool,
            /// A cut does so when the rate was increased since the last one; else only when the
            /// byte counter increased it.
            pub clamp_tgt_rate_after_time_inc: bool,
            /// `sigcomm15`: fast recovery takes `rpg_threshold` steps for each counter; one less
            /// where this is not set.  The fluid model counts as many, the text of the paper can be
            /// read both ways.
            pub full_fast_recovery: bool,
            /// A sequence NAK or an ack timeout slows the queue pair down as a CNP does.
            pub slow_restart: bool,
        }

        /// The knobs that are whole numbers.
        pub const KNOBS: &[Knob] = &[$(Knob {
            name: stringify!($name),
            unit: $unit,
            range: ($min, $max),
            get: |p| p.$name,
            set: |p, value| p.$name = value,
        },)*];
    };
}

knobs! {
    /// Time between increases without a cut.
    rpg_time_reset: 1..=131_071, "us";
    /// Bytes sent between increases without a cut; 0 is no byte counter.  NICs hold up to 32767.
    rpg_byte_reset: 0..=16_777_215, "64 bytes";
    /// Increases of one counter after which fast recovery ends.
    rpg_threshold: 1..=31, "increases";
    /// What additive increase adds to the target rate.
    rpg_ai_rate: 1..=1_000_000, "Mb/s";
    /// What hyper increase adds to the target rate.
    rpg_hai_rate: 1..=1_000_000, "Mb/s";
    /// A cut takes the share alpha x 2^(10 - this) of the rate: 11 is half of alpha.
    rpg_gd: 10..=11, "log2";
    /// A cut leaves at least this share of the rate.
    rpg_min_dec_fac: 0..=100, "%";
    /// No cut goes below.
    rpg_min_rate: 1..=1_000_000, "Mb/s";
    /// No increase goes above; 0 is the line rate.
    rpg_max_rate: 0..=1_000_000, "Mb/s";
    /// Rate and target rate after the first CNP; 0 leaves them.
    rate_to_set_on_first_cnp: 0..=1_000_000, "Mb/s";
    /// What alpha keeps of itself at each update.
    dce_tcp_g: 0..=1023, "1/1024";
    /// Time between updates of alpha.
    dce_tcp_rtt: 1..=131_071, "us";
    /// Time between cuts: a CNP is acted on at the next border of a period.  `sigcomm15`: CNPs that
    /// come sooner after a cut are not acted on.
    rate_reduce_monitor_period: 0..=131_071, "us";
    /// Alpha at the first CNP.
    initial_alpha_value: 1..=1024, "1/1024";
    /// Alpha does not fall below.  Not a knob of NVIDIA's.
    min_alpha_value: 0..=1024, "1/1024";
}

impl DcqcnParams {
    /// The defaults of today's ConnectX firmware.
    pub const NVIDIA: DcqcnParams = DcqcnParams {
        algorithm: Algorithm::Nvidia,
        rpg_time_reset: 300,
        rpg_byte_reset: 32_767,
        rpg_threshold: 1,
        rpg_ai_rate: 5,
        rpg_hai_rate: 50,
        rpg_gd: 11,
        rpg_min_dec_fac: 50,
        rpg_min_rate: 1,
        rpg_max_rate: 0,
        rate_to_set_on_first_cnp: 0,
        dce_tcp_g: 1019,
        dce_tcp_rtt: 1,
        rate_reduce_monitor_period: 4,
        initial_alpha_value: 1023,
        min_alpha_value: 0,
        clamp_tgt_rate: false,
        clamp_tgt_rate_after_time_inc: true,
        full_fast_recovery: true,
        slow_restart: false,
    };

    /// Checks every knob, and those that must fit together.
    ///
    /// # Errors
    /// The knob that is wrong, and what would be right.
    pub fn check(&self) -> Result<(), ParamError> {
        for knob in KNOBS {
            let value = (knob.get)(self);
            if value < knob.range.0 || value > knob.range.1 {
                return Err(ParamError::Range { knob, value });
            }
        }
        if self.rpg_max_rate != 0 && self.rpg_max_rate < self.rpg_min_rate {
            return Err(ParamError::MinAboveMax { min: self.rpg_min_rate, max: self.rpg_max_rate });
        }
        if self.rate_reduce_monitor_period == 0 && self.algorithm != Algorithm::Sigcomm15 {
            return Err(ParamError::NoPeriod);
        }
        Ok(())
    }
}

/// Knobs that make no reaction point.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum ParamError {
    /// A value out of its bounds.
    #[error("{}: {value} is not from {} to {} ({})", knob.name, knob.range.0, knob.range.1, knob.unit)]
    Range {
        /// The knob.
        knob: &'static Knob,
        /// Its value.
        value: u32,
    },
    /// The lowest rate lies above the highest.
    #[error("rpg_min_rate: {min} Mb/s is more than rpg_max_rate, {max} Mb/s")]
    MinAboveMax {
        /// `rpg_min_rate`.
        min: u32,
        /// `rpg_max_rate`.
        max: u32,
    },
    /// Periods of no length.
    #[error("rate_reduce_monitor_period: 0 us belongs to algorithm sigcomm15 only: give at least 1")]
    NoPeriod,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_in_range_and_scale_with_the_line() {
        for gbps in [1, 10, 25, 100, 400, 800] {
            for (name, preset) in Preset::ALL {
                preset.params(Rate::from_gbps(gbps)).check().unwrap_or_else(|e| panic!("{name}: {e}"));
                assert_eq!(preset.as_str(), name);
            }
        }
        let hpcc = Preset::Hpcc.params(Rate::from_gbps(100));
        assert_eq!((hpcc.rpg_ai_rate, hpcc.rpg_hai_rate), (20, 200));
        assert_eq!(Preset::Keysight.params(Rate::from_gbps(400)).rpg_min_rate, 8);
        // 10 MB and 2 MB.
        assert_eq!(Preset::Sigcomm15.params(Rate::from_gbps(40)).rpg_byte_reset * 64, 10_000_000);
        assert_eq!(Preset::Spirent.params(Rate::from_gbps(40)).rpg_byte_reset * 64, 2_000_000);
    }

    #[test]
    fn each_knob_has_bounds_and_says_so() {
        for knob in KNOBS {
            let mut params = DcqcnParams::NVIDIA;
            (knob.set)(&mut params, knob.range.1 + 1);
            let text = params.check().unwrap_err().to_string();
            assert!(text.starts_with(knob.name) && text.contains(&knob.range.1.to_string()), "{text}");
        }
        let params = DcqcnParams { rpg_max_rate: 10, rpg_min_rate: 11, ..DcqcnParams::NVIDIA };
        assert!(matches!(params.check(), Err(ParamError::MinAboveMax { min: 11, max: 10 })));
        let params = DcqcnParams { rate_reduce_monitor_period: 0, ..DcqcnParams::NVIDIA };
        assert!(matches!(params.check(), Err(ParamError::NoPeriod)));
    }
}
