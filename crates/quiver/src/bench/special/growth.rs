//! `growth`: clocks a packet as one thing grows, for plots in which a cliff would show.

use crate::bench::feed::Traffic;
use crate::bench::measure::{ENOUGH, Meter};
use crate::bench::prefixes::Prefixes;
use crate::bench::random::Random;
use crate::bench::report::{Answer, Place, round};
use crate::bench::rig::{Plan, Rig, Tags, Vrfs, list4};
use crate::bench::{Bench, Context, Emit, many, scenarios, traffic};
use serde::Serialize;
use std::sync::atomic::Ordering;

#[derive(Serialize)]
struct Point {
    scenario: &'static str,
    /// What grows.
    series: &'static str,
    /// How much of it.
    x: usize,
    routes: usize,
    workers: usize,
    size: usize,
    mpps: f64,
    clocks_per_packet: f64,
    clocks_per_packet_best: f64,
    clocks_per_packet_total: f64,
    clocks_per_packet_2ms: f64,
    tables_mb: f64,
    #[serde(flatten)]
    place: Place,
}

struct Series<'a> {
    c: &'a Context,
    args: &'a Bench,
    emit: Emit<'a>,
}

impl Series<'_> {
    fn point(&mut self, series: &'static str, x: usize, rig: &Rig, meter: &Meter) -> Result<(), String> {
        rig.warm_up((self.args.seconds / 4.0).min(0.3));
        let run = meter.measure(self.args.seconds, ENOUGH, || {});
        let clocks = |w: &_| meter.clocks(w);
        let tables = [net::router::RouteTable::V4, net::router::RouteTable::V6];
        let bytes: usize = tables.into_iter().map(|t| rig.router.table_bytes(t)).sum();
        let found = Point {
            scenario: "growth",
            series,
            x,
            routes: rig.routes,
            workers: self.c.machine.workers,
            size: rig.size,
            mpps: round(run.median(|w| Some(meter.mpps(w))), 3),
            clocks_per_packet: round(run.median(clocks), 2),
            clocks_per_packet_best: round(run.best(clocks), 2),
            clocks_per_packet_total: round(run.median(|w| meter.total_clocks(w)), 2),
            clocks_per_packet_2ms: round(run.short_at(0.5), 2),
            tables_mb: round(bytes as f64 / 1e6, 1),
            place: Place::now(),
        };
        let line = format!(
            "growth, {series:<8} {x:>8}: {:.2} Mpps, {:.1} clocks a packet (best {:.1}, 2 ms windows {:.1})",
            found.mpps, found.clocks_per_packet, found.clocks_per_packet_best, found.clocks_per_packet_2ms
        );
        (self.emit)(Answer::line(&found, line)?)
    }

    fn plan(&mut self, series: &'static str, x: usize, plan: &Plan) -> Result<(), String> {
        let mut rig = Rig::new(&self.c.machine, plan, false)?;
        let _aside = self.c.machine.step_aside();
        let meter = Meter::new(&rig);
        rig.start();
        self.point(series, x, &rig, &meter)?;
        rig.stop();
        Ok(())
    }

    fn routes(&mut self, series: &'static str, v6: bool, most: usize) -> Result<(), String> {
        let all = Prefixes::mix(v6, most, &mut Random::new(7));
        let mut order = all.list.clone();
        Random::new(8).shuffle(&mut order);
        let mut n = 1;
        while n <= most {
            // The first n of one order: each table holds the one before it.
            let table = Prefixes::of(v6, order[..n].to_vec());
            let plan = scenarios::plain(&self.c.input, table, scenarios::HOPS.min(n))?;
            self.plan(series, n, &plan)?;
            n *= 2;
        }
        Ok(())
    }

    /// Destinations over a large table.
    fn flows(&mut self) -> Result<(), String> {
        let plan = self.c.large_plan()?;
        let mut n = 1;
        while n <= plan.traffic.dst4.len() {
            let dst4 = plan.traffic.dst4[..n].into();
            let plan = Plan { traffic: Traffic { dst4, ..plan.traffic.clone() }, ..plan.clone() };
            self.plan("flows", n, &plan)?;
            n *= 4;
        }
        Ok(())
    }

    fn sizes(&mut self) -> Result<(), String> {
        for size in [64, 128, 256, 512, 1024, 1518, 2048, 4096, 9000] {
            let table = scenarios::small_table(false)?;
            let dst4 = list4(&table.uniform(scenarios::DESTINATIONS, &mut Random::new(1)));
            let traffic = Traffic { dst4, ..scenarios::one(traffic::ip4(size, 0)?) };
            self.plan("size", size, &scenarios::spread(table, 1, traffic))?;
        }
        Ok(())
    }

    fn vectors(&mut self, series: &'static str, plan: &Plan) -> Result<(), String> {
        let mut rig = Rig::new(&self.c.machine, plan, false)?;
        let _aside = self.c.machine.step_aside();
        let meter = Meter::new(&rig);
        rig.start();
        for shift in 0..=8 {
            rig.feed.burst.store(1 << shift, Ordering::Relaxed);
            self.point(series, 1 << shift, &rig, &meter)?;
        }
        rig.stop();
        Ok(())
    }

    /// Sub-interfaces on which packets come, so many from one in a row.
    fn subs(&mut self, series: &'static str, sizes: &[usize], vrfs: Vrfs, run: usize) -> Result<(), String> {
        for &n in sizes {
            let mut plan = many::routed(&self.c.input, Tags::One, n, vrfs, false)?;
            plan.tagged_out = None;
            let tags = plan.traffic.tags.iter().flat_map(|t| std::iter::repeat_n(*t, run)).collect();
            plan.traffic.tags = tags;
            self.plan(series, n, &plan)?;
        }
        Ok(())
    }
}

/// All series.
pub fn run(c: &Context, args: &Bench, emit: Emit<'_>) -> Result<(), String> {
    for one in [routes4, routes6, flows, sizes, vectors, subs, vrfs] {
        one(c, args, emit)?;
    }
    Ok(())
}

/// IPv4 routes.
pub fn routes4(c: &Context, args: &Bench, emit: Emit<'_>) -> Result<(), String> {
    Series { c, args, emit }.routes("routes4", false, 1 << 22)
}

/// IPv6 routes.
pub fn routes6(c: &Context, args: &Bench, emit: Emit<'_>) -> Result<(), String> {
    Series { c, args, emit }.routes("routes6", true, 1 << 21)
}

/// Different destinations.
pub fn flows(c: &Context, args: &Bench, emit: Emit<'_>) -> Result<(), String> {
    Series { c, args, emit }.flows()
}

/// Bytes of a frame.
pub fn sizes(c: &Context, args: &Bench, emit: Emit<'_>) -> Result<(), String> {
    Series { c, args, emit }.sizes()
}

/// Packets of a vector, with one route and with many.
pub fn vectors(c: &Context, args: &Bench, emit: Emit<'_>) -> Result<(), String> {
    let mut s = Series { c, args, emit };
    s.vectors("vector", &scenarios::plain(&c.input, scenarios::small_table(false)?, 1)?)?;
    s.vectors("vector-large", &c.large_plan()?)
}

/// Sub-interfaces on which packets come.
pub fn subs(c: &Context, args: &Bench, emit: Emit<'_>) -> Result<(), String> {
    Series { c, args, emit }.subs("subs", &[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000], Vrfs::None, 1)
}

/// Routing tables, each of a sub-interface on which packets come.
pub fn vrfs(c: &Context, args: &Bench, emit: Emit<'_>) -> Result<(), String> {
    let mut s = Series { c, args, emit };
    const SIZES: &[usize] = &[1, 10, 100, 1000, 2000, 4000];
    // A vector from each in turn, as bursts come; then each packet from another one.
    s.subs("vrfs", SIZES, Vrfs::Each, graph::VECTOR_SIZE)?;
    s.subs("vrfs-mixed", SIZES, Vrfs::Each, 1)
}
