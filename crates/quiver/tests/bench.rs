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

fn names(o: &Value) -> Vec<&str> {
    o["nodes"].as_array().unwrap().iter().map(|n| n["name"].as_str().unwrap()).collect()
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
            assert!(clocks > 0.0 && (1.0..=256.0).contains(&vectors), "{name}: {n}");
        }
        // Every packet takes the whole path, and comes out.
        assert_eq!((&o["dropped"], &o["lost"], &o["leaked"]), (&0.into(), &0.into(), &0.into()), "{o}");
    }
    let routes: Vec<u64> = all.iter().map(|o| o["routes"].as_u64().unwrap()).collect();
    assert_eq!(routes, [0, 1, 1000, 1, 1, 1, 1]);
    let four = ["pg-input", "ethernet-input", "ip4-input", "ip4-lookup", "ip4-rewrite", "interface-output"];
    for i in [1, 2, 4, 5, 6] {
        assert_eq!(names(&all[i])[..6], four, "{}", wanted[i]);
        assert_eq!(names(&all[i])[6..], ["interface-tx"]);
    }
    assert_eq!(
        names(&all[0]),
        ["pg-input", "ethernet-input", "l2-xconnect", "interface-output", "interface-tx"]
    );
    assert!(names(&all[3]).contains(&"ip6-lookup"));
    assert_eq!(all[6]["size"], 361, "the mean of 64, 594 and 1518 bytes, 7:4:1");
}

#[test]
fn bad_packets_are_dropped_among_good_ones() {
    let all = objects(&["mixed", "--json", "--seconds", "0.1", "--workers", "1"]);
    let o = &all[0];
    let share = |name: &str| {
        let of = |n: &&Value| n["name"] == name;
        o["nodes"].as_array().unwrap().iter().find(of).map_or(0.0, |n| n["share"].as_f64().unwrap())
    };
    let near = |a: f64, b: f64| (a - b).abs() < 0.01;
    assert!(near(share("arp-input"), 0.05) && near(share("ip6-lookup"), 0.4), "{o}");
    assert!(near(share("error-drop"), 0.1), "{o}");
    assert_eq!((&o["lost"], &o["leaked"]), (&0.into(), &0.into()), "{o}");
}

#[test]
fn sizes_and_tables_are_what_was_asked_for() {
    let dir = std::env::temp_dir().join(format!("quiver-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("table.txt");
    std::fs::write(&file, "8.0.0.0/8\n8.8.8.0/24\n1.1.1.0/24\n2001:db8::/32\n2400::/12\n").unwrap();
    let file = file.to_str().unwrap();
    let words =
        ["ip4-internet", "ip4-internet-skew", "ip6-internet", "--json", "--seconds", "0.1", "--size", "4000"];
    let all = objects(&[&words[..], &["--table", file]].concat());
    let got = |f: &str| all.iter().map(|o| o[f].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!((got("routes"), got("size")), (vec![3, 3, 2], vec![4000, 4000, 4000]));
    for o in &all {
        assert_eq!((&o["dropped"], &o["lost"], &o["leaked"]), (&0.into(), &0.into(), &0.into()), "{o}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn wrong_words_are_explained() {
    let fails = |args: &[&str]| {
        let out = bench(args);
        assert!(!out.status.success() && out.stdout.is_empty(), "{args:?}");
        String::from_utf8(out.stderr).unwrap()
    };
    let e = fails(&["ip4", "ip5"]);
    assert!(e.starts_with("quiver bench: there is no scenario ip5; there are l2xc, ip4, "), "{e}");
    let e = fails(&["ip4-internet"]);
    assert_eq!(e, "quiver bench: ip4-internet: needs a table of IPv4 prefixes: give the file with --table\n");
    let e = fails(&["ip4", "--workers", "64", "--seconds", "0.1"]);
    assert!(e.contains("64 workers need as many CPUs, and there are"), "{e}");
    assert!(fails(&["ip4", "--size", "60"]).contains("64 to 9000 bytes"));
    let e = fails(&["ip4-internet", "--table", "/nonexistent"]);
    assert!(e.contains("cannot read /nonexistent: "), "{e}");
}
