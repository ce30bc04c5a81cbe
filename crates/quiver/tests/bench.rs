//! `quiver bench`: what it prints, and that no packet and no buffer is lost on the way. Nothing here is timed.

#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::Value;
use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quiver")).arg("bench").args(args).output().unwrap()
}

fn objects(args: &[&str]) -> Vec<Value> {
    let out = bench(args);
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{args:?}: {error}");
    String::from_utf8(out.stdout).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// Packets of a node for each packet that came in.
fn share(o: &Value, node: &str) -> f64 {
    let of = |n: &&Value| n["name"] == node;
    o["nodes"].as_array().unwrap().iter().find(of).map_or(0.0, |n| n["share"].as_f64().unwrap())
}

#[test]
fn scenarios_forward_everything_and_tell_all_fields() {
    let wanted = ["l2xc", "ip4", "ip4-1k", "ip6", "ip4-ecmp16", "vlan", "imix"];
    let all = objects(&[&wanted[..], &["--json", "--seconds", "0.1"]].concat());
    assert_eq!(all.iter().map(|o| o["scenario"].as_str().unwrap()).collect::<Vec<_>>(), wanted);
    for o in &all {
        let name = o["scenario"].as_str().unwrap();
        for field in [
            "mpps",
            "clocks_per_packet",
            "clocks_per_packet_best",
            "clocks_per_packet_total",
            "rss_mb",
            "tsc_hz",
            "size",
            "workers",
        ] {
            assert!(o[field].as_f64().unwrap() > 0.0, "{name}: {field} is {}", o[field]);
        }
        assert!(o["clocks_per_packet_best"].as_f64() <= o["clocks_per_packet"].as_f64(), "{o}");
        assert!(o["clocks_per_packet"].as_f64() < o["clocks_per_packet_total"].as_f64(), "{o}");
        assert!(!o["cpu"].as_str().unwrap().is_empty());
        assert!(["v2", "v3", "v4"].contains(&o["level"].as_str().unwrap()));
        for n in o["nodes"].as_array().unwrap() {
            let (clocks, vectors) = (n["clocks"].as_f64().unwrap(), n["vectors_per_call"].as_f64().unwrap());
            assert!(
                n["clocks_2ms"].as_f64().unwrap() > 0.0 || n["share"].as_f64().unwrap() < 0.5,
                "{name}: {n}"
            );
            assert!(clocks > 0.0 && (1.0..=256.0).contains(&vectors), "{name}: {n}");
        }
        // Every packet takes the whole path, and comes out.
        clean(o);
    }
    let routes: Vec<u64> = all.iter().map(|o| o["routes"].as_u64().unwrap()).collect();
    assert_eq!(routes, [0, 1, 1000, 1, 1, 1, 1]);
    for (o, node) in all.iter().zip([
        "l2-xconnect",
        "ip4-lookup",
        "ip4-lookup",
        "ip6-lookup",
        "ip4-lookup",
        "ip4-lookup",
        "ip4-lookup",
    ]) {
        for name in ["pg-input", "ethernet-input", node, "interface-tx"] {
            assert!((share(o, name) - 1.0).abs() < 0.1, "{name} in {o}");
        }
    }
    assert_eq!(all[6]["size"], 361, "the mean of 64, 594 and 1518 bytes, 7:4:1");
}

#[test]
fn bad_packets_are_dropped_among_good_ones() {
    let all = objects(&["mixed", "--json", "--seconds", "0.1", "--workers", "1"]);
    let o = &all[0];
    // A window may end in the middle of a vector.
    let near = |a: f64, b: f64| (a - b).abs() < 0.03;
    assert!(near(share(o, "arp-input"), 0.05) && near(share(o, "ip6-lookup"), 0.4), "{o}");
    // One in ten is bad, and of the ARP requests only as many are answered as their class may have.
    assert!(near(share(o, "error-drop"), 0.15), "{o}");
    assert_eq!((&o["lost"], &o["leaked"]), (&0.into(), &0.into()), "{o}");
}

#[test]
fn several_workers_are_held_against_one() {
    let one = &objects(&["ip4", "--json", "--seconds", "0.1"])[0];
    assert!(one.get("times_one").is_none(), "{one}");
    let two = &objects(&["ip4", "--json", "--seconds", "0.5", "--workers", "2"])[0];
    assert!(two["times_one"].as_f64().unwrap() > 0.0 && two["workers"] == 2, "{two}");
    clean(two);
}

#[test]
fn sizes_and_tables_are_what_was_asked_for() {
    let (dir, f) = files("table", &[("t", "8.0.0.0/8\n8.8.8.0/24\n1.1.1.0/24\n2001:db8::/32\n2400::/12\n")]);
    let scenarios = ["ip4-internet", "ip4-internet-skew", "ip6-internet", "internet", "internet-turns"];
    let options = ["--json", "--seconds", "0.1", "--size", "4000", "--table", &f[0]];
    let all = objects(&[&scenarios[..], &options].concat());
    let got = |f: &str| all.iter().map(|o| o[f].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!((got("routes"), got("size")), (vec![3, 3, 2, 5, 5], vec![4000; 5]));
    all.iter().for_each(clean);
    std::fs::remove_dir_all(&dir).unwrap();
}

fn clean(o: &Value) {
    assert_eq!((&o["dropped"], &o["lost"], &o["leaked"]), (&0.into(), &0.into(), &0.into()), "{o}");
}

/// A folder of this test's own, with files in it.
fn files(name: &str, list: &[(&str, &str)]) -> (std::path::PathBuf, Vec<String>) {
    let dir = std::env::temp_dir().join(format!("quiver-bench-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let write = |(n, text): &(&str, &str)| {
        let file = dir.join(n);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let all = list.iter().map(write).collect();
    (dir, all)
}

#[test]
fn updates_of_both_families_lose_no_packet() {
    let table = "8.0.0.0/8\n8.8.8.0/24\n1.1.1.0/24\n2001:db8::/32\n2400::/12\n";
    let updates = "W 8.8.8.0/24\nA 8.8.8.0/24\nA 9.9.9.0/24\nW 2400::/12\nW 9.0.0.0/9\nA 2001:db8:1::/48\nW 1.1.1.0/24\n";
    let (dir, f) = files("churn", &[("table", table), ("updates", updates)]);
    let all = objects(&["churn", "--json", "--seconds", "0.4", "--table", &f[0], "--updates", &f[1]]);
    assert_eq!(all.iter().map(|o| o["family"].as_u64().unwrap()).collect::<Vec<_>>(), [4, 6]);
    for (o, routes) in all.iter().zip([4, 3]) {
        clean(o);
        assert_eq!(o["routes"], routes, "with the default route");
        assert!(o["updates"].as_u64().unwrap() > 256 && o["updates_per_second"].as_f64().unwrap() > 0.0);
        assert!(o["throughput_ratio"].as_f64().unwrap() > 0.0 && o["gap_us"].as_f64().unwrap() > 0.0);
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn packets_of_a_lost_next_hop_take_the_other() {
    let (dir, f) = files("converge", &[("table", "8.0.0.0/8\n1.1.1.0/24\n")]);
    let all = objects(&["converge", "--json", "--seconds", "1", "--table", &f[0]]);
    assert_eq!(all.iter().map(|o| o["event"].as_str().unwrap()).collect::<Vec<_>>(), ["link", "admin-down"]);
    for o in &all {
        let (last, all) = (o["last_packet_us"].as_f64().unwrap(), o["converge_us"].as_f64().unwrap());
        assert!(0.0 < all && last <= all && all <= o["converge_us_max"].as_f64().unwrap(), "{o}");
        assert_eq!(o["routes"], 2);
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn every_packet_has_its_time_in_the_graph() {
    let (dir, f) = files("latency", &[("table", "8.0.0.0/8\n1.1.1.0/24\n")]);
    let all = objects(&["latency", "--json", "--seconds", "0.5", "--table", &f[0]]);
    let loads: Vec<f64> = all.iter().map(|o| o["load"].as_f64().unwrap()).collect();
    assert_eq!(loads, [0.01, 0.1, 0.5, 0.9]);
    for o in &all {
        for time in ["graph_us", "due_us"] {
            let t = ["p50", "p99", "p999", "max"].map(|q| o[time][q].as_f64().unwrap());
            assert!(t[0] > 0.0 && t.is_sorted() && t[3] < 60e6, "{time}: {t:?}");
        }
        assert!(o["packets"].as_u64().unwrap() > 0 && o["mpps"].as_f64().unwrap() > 0.0);
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_sleeping_worker_wakes_up_for_each_packet() {
    let o = &objects(&["idle", "--json", "--seconds", "0.3"])[0];
    let t = ["p50", "p99", "p999", "max"].map(|q| o["wake_us"][q].as_f64().unwrap());
    assert!(t[0] > 0.0 && t.is_sorted(), "{o}");
    assert!(o["cpu_percent"].as_f64().is_some() && o["wakeups_per_second"].as_f64().is_some());
}

#[test]
fn growth_goes_over_all_points() {
    let all = objects(&["growth-vector", "growth-subs", "--json", "--seconds", "0.02"]);
    let points = |series: &str| -> Vec<u64> {
        let of = all.iter().filter(|o| o["series"] == series);
        of.map(|o| o["x"].as_u64().unwrap()).collect()
    };
    let vectors: Vec<u64> = (0..=8).map(|n| 1 << n).collect();
    assert_eq!((points("vector"), points("vector-large")), (vectors.clone(), vectors));
    assert_eq!(points("subs"), [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]);
    assert!(all.iter().all(|o| o["clocks_per_packet"].as_f64().unwrap() > 0.0));
}

/// Runs the script that writes docs/performance.md.
fn report(args: &[&str]) -> Output {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benchmarks/report.py");
    Command::new("/usr/bin/python3").arg(script).args(args).output().unwrap()
}

#[test]
fn results_become_a_page_with_plots() {
    let header = report(&["--header", "0123456789", "false"]);
    let head: Value = serde_json::from_slice(&header.stdout).unwrap();
    assert!(head["kernel"].as_str().is_some_and(|k| !k.is_empty()), "{head}");
    let measured = bench(&["ip4", "mixed", "idle", "growth-vector", "--json", "--seconds", "0.05"]);
    let text = String::from_utf8([header.stdout, measured.stdout].concat()).unwrap();
    let (dir, f) = files("page", &[("2026-01-01-0123456789.jsonl", &text)]);
    let docs = dir.join("docs");
    let (to, results) = (docs.to_str().unwrap(), f[0].as_str());
    let done = report(&["--to", to, results]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let page = std::fs::read_to_string(docs.join("performance.md")).unwrap();
    for part in ["0123456789", "| `ip4` | 1 |", "## Without traffic", "performance/growth-vector.svg"] {
        assert!(page.contains(part), "{part} is missing:\n{page}");
    }
    for plot in ["forwarding", "nodes", "growth-vector"] {
        let svg = std::fs::read_to_string(docs.join(format!("performance/{plot}.svg"))).unwrap();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && !svg.contains("nan"), "{svg}");
    }
    assert!(report(&["--to", to, "--check", results]).status.success());
    std::fs::write(docs.join("performance.md"), page.replace("0123456789", "abc")).unwrap();
    let stale = report(&["--to", to, "--check", results]);
    assert!(!stale.status.success() && String::from_utf8_lossy(&stale.stdout).contains("performance.md"));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn the_page_is_what_the_newest_results_say() {
    let done = report(&["--check"]);
    assert!(
        done.status.success(),
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
}

#[test]
fn wrong_words_are_explained() {
    let fails = |args: &[&str]| {
        let out = bench(args);
        assert!(!out.status.success() && out.stdout.is_empty(), "{args:?}");
        String::from_utf8(out.stderr).unwrap()
    };
    let e = fails(&["ip4", "ip5"]);
    assert!(e.starts_with("quiver bench: there is no scenario ip5; there are l2xc, l2bd, "), "{e}");
    let e = fails(&["churn"]);
    assert!(
        e.ends_with("needs a table and updates of it: give the files with --table and --updates\n"),
        "{e}"
    );
    let e = fails(&["ip4-internet"]);
    assert_eq!(e, "quiver bench: ip4-internet: needs a table of IPv4 prefixes: give the file with --table\n");
    let e = fails(&["ip4", "--workers", "64", "--seconds", "0.1"]);
    assert!(e.contains("64 workers need as many CPUs, and there are"), "{e}");
    assert!(fails(&["ip4", "--size", "60"]).contains("64 to 9000 bytes"));
    let e = fails(&["ip4-internet", "--table", "/nonexistent"]);
    assert!(e.contains("cannot read /nonexistent: "), "{e}");
}
