//! Packets over the API, with the binary: captured as they pass, put into the graph, taken out of it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use quiver_client::v1::{CaptureRequest, PacketDirection, capture_response};
use quiver_client::{Passed, Router};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio_stream::{Stream, StreamExt};

/// For what must come about, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(120);

struct Started {
    child: Child,
    folder: PathBuf,
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Started {
    fn start(name: &str, interfaces: &str) -> Started {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("packets-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let config = folder.join("router.yaml");
        let ctl = folder.join("ctl");
        let ctl = ctl.display();
        let text = format!("quiver: {{sockets: {{ctl: {ctl}}}, buffers: {{count: 4096}}}}\n{interfaces}\n");
        std::fs::write(&config, text).unwrap();
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_quiver"))
            .args(["run", "--config"])
            .arg(&config)
            .arg("--api")
            .arg(folder.join("api"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Started { child, folder }
    }

    async fn connect(&mut self) -> Router {
        let until = Instant::now() + PATIENCE;
        loop {
            match Router::unix(self.folder.join("api")).await {
                Ok(router) => return router,
                Err(e) => {
                    let ended = self.child.try_wait().unwrap();
                    if ended.is_some() || Instant::now() > until {
                        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                        panic!("{e}; {ended:?}\n{log}");
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn run(name: &str, interfaces: &str, test: impl AsyncFnOnce(&mut Started, Router)) {
    let mut started = Started::start(name, interfaces);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let router = started.connect().await;
        test(&mut started, router).await;
    });
}

const LOOPBACKS: &str =
    "loopbacks: {loop0: {addresses: [10.255.0.1/16]}, loop1: {addresses: [10.254.0.1/16]}}";

async fn tell(router: &Router, line: &str) -> String {
    router.command(line).await.unwrap_or_else(|e| panic!("{line}: {e}")).text
}

/// The next of what a stream tells.
async fn next<T>(
    stream: &mut (impl Stream<Item = Result<Passed<T>, quiver_client::Error>> + Unpin),
) -> Passed<T> {
    tokio::time::timeout(PATIENCE, stream.next()).await.unwrap().unwrap().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// A frame for nobody, told from others by a number.
fn frame(n: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0xfe, 0, 0, 0, 9, 2, 1, 1, 1, 1, 1, 0x88, 0xb5];
    frame.extend((0..len - 14).map(|i| (i * 7) as u8 ^ n));
    frame
}

/// The packets of a pcap file.
fn packets_of(file: &Path) -> Vec<(i64, Vec<u8>)> {
    let bytes = std::fs::read(file).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut all) = (24, vec![]);
    while at < bytes.len() {
        let time = i64::from(word(at)) * 1_000_000_000 + i64::from(word(at + 4));
        let len = word(at + 8) as usize;
        all.push((time, bytes[at + 16..at + 16 + len].to_vec()));
        at += 16 + len;
    }
    all
}

#[test]
fn a_capture_tells_each_byte_that_passes_as_the_file_of_pcap_trace_does() {
    run("bytes", LOOPBACKS, async |started, router| {
        let of = |interface: &str, direction: PacketDirection, count, snap_length| CaptureRequest {
            interface: interface.into(),
            directions: vec![direction.into()],
            snap_length,
            count,
        };
        let mut all =
            router.capture(CaptureRequest { count: 16, ..CaptureRequest::default() }).await.unwrap();
        let mut short = router.capture(of("loop0", PacketDirection::Rx, 0, 20)).await.unwrap();
        let mut other = router.capture(of("loop1", PacketDirection::Rx, 1, 0)).await.unwrap();
        let file = started.folder.join("both.pcap");
        tell(&router, &format!("pcap trace rx tx drop file {}", file.display())).await;
        let frames: Vec<Vec<u8>> = (0..8).map(|n| frame(n, 60 + usize::from(n) * 200)).collect();
        for (n, frame) in frames.iter().enumerate() {
            let raw = hex(frame);
            let line = format!("packet-generator new s{n} interface loop0 count 1 data \"raw {raw}\"");
            tell(&router, &line).await;
            tell(&router, &format!("packet-generator enable s{n}")).await;
            // One after another, received and dropped: nobody is at that address.
            for direction in [PacketDirection::Rx, PacketDirection::Drop] {
                let Passed::Packet(p) = next(&mut all).await else { panic!("lost") };
                assert_eq!((&p.data, p.direction(), p.interface.as_str()), (frame, direction, "loop0"));
                assert_eq!(p.length as usize, frame.len());
            }
            let Passed::Packet(p) = next(&mut short).await else { panic!("lost") };
            assert_eq!((&p.data[..], p.length as usize), (&frame[..20], frame.len()));
        }
        assert!(all.next().await.is_none(), "so many were asked for");
        tell(&router, "pcap trace off").await;
        let kept: Vec<Vec<u8>> = packets_of(&file).into_iter().map(|p| p.1).collect();
        let twice: Vec<&Vec<u8>> = frames.iter().flat_map(|f| [f, f]).collect();
        assert_eq!(kept.iter().collect::<Vec<_>>(), twice);
        tell(
            &router,
            &format!("packet-generator new o interface loop1 count 1 data \"raw {}\"", hex(&frames[0])),
        )
        .await;
        tell(&router, "packet-generator enable o").await;
        let Passed::Packet(p) = next(&mut other).await else { panic!("lost") };
        assert_eq!((p.interface.as_str(), &p.data), ("loop1", &frames[0]), "nothing of loop0");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let ago = i64::try_from(now.as_nanos()).unwrap() - p.time_ns;
        assert!((0..i64::try_from(PATIENCE.as_nanos()).unwrap()).contains(&ago), "{ago} ns ago");
    });
}

#[test]
fn a_capture_says_what_is_wrong_and_ends_with_its_interface() {
    run("wrong", LOOPBACKS, async |_, router| {
        let wrong = async |request: CaptureRequest| router.capture(request).await.unwrap_err();
        let e = wrong(CaptureRequest { interface: "nothing".into(), ..CaptureRequest::default() }).await;
        assert_eq!((e.infos[0].object.as_str(), e.infos[0].value.as_str()), ("interface", "nothing"));
        for snap_length in [1, 13, 9217] {
            let e = wrong(CaptureRequest { snap_length, ..CaptureRequest::default() }).await;
            assert!(e.to_string().contains("14 to 9216"), "{e}");
        }
        let e = wrong(CaptureRequest { directions: vec![7], ..CaptureRequest::default() }).await;
        assert_eq!(e.infos[0].expected, ["RX", "TX", "DROP"]);
        tell(&router, "create loopback interface instance 7").await;
        let mut gone = router
            .capture(CaptureRequest { interface: "loop7".into(), ..CaptureRequest::default() })
            .await
            .unwrap();
        tell(&router, "delete loopback interface intfc loop7").await;
        let end = tokio::time::timeout(PATIENCE, gone.next()).await.unwrap().unwrap().unwrap_err();
        assert!(end.to_string().contains("the interface is gone"), "{end}");
        // Places are given back.
        for round in 0..3 {
            let mut held = vec![];
            let refused = loop {
                match router.capture(CaptureRequest::default()).await {
                    Ok(capture) => held.push(capture),
                    Err(e) => break e,
                }
                assert!(held.len() <= 8);
            };
            assert!(refused.to_string().contains("8 captures"), "{round}: {refused}");
            drop(held);
            // The router gets to know a little later.
            let until = Instant::now() + PATIENCE;
            while router.capture(CaptureRequest::default()).await.is_err() {
                assert!(Instant::now() < until);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    });
}

#[test]
fn who_does_not_read_a_capture_is_told_how_many_were_lost() {
    const SENT: u64 = 30_000;
    run("slow", LOOPBACKS, async |_, router| {
        let rx = vec![PacketDirection::Rx.into()];
        let what = CaptureRequest { directions: rx, interface: "loop0".into(), ..CaptureRequest::default() };
        let mut slow = router.capture(what.clone()).await.unwrap();
        let raw = hex(&frame(1, 60));
        let line = format!("packet-generator new s interface loop0 rate max count {SENT} data \"raw {raw}\"");
        tell(&router, &line).await;
        tell(&router, "packet-generator enable s").await;
        let until = Instant::now() + PATIENCE;
        // All were sent before anything is read.
        while !tell(&router, "show packet-generator").await.contains(&format!(" {SENT} ")) {
            assert!(Instant::now() < until, "{}", tell(&router, "show packet-generator").await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let (mut received, mut lost) = (0, 0);
        while received + lost < SENT {
            match next::<capture_response::Packet>(&mut slow).await {
                Passed::Packet(_) => received += 1,
                Passed::Lost(n) => lost += n,
            }
        }
        assert_eq!(received + lost, SENT, "{received} and {lost}");
        assert!(lost > 0 && received > 1000, "{received} and {lost}");
        // Nothing comes behind it, and the next packet is told.
        tell(
            &router,
            &format!("packet-generator new t interface loop0 count 1 data \"raw {}\"", hex(&frame(2, 60))),
        )
        .await;
        tell(&router, "packet-generator enable t").await;
        let Passed::Packet(p) = next(&mut slow).await else { panic!("lost twice") };
        assert_eq!(p.data, frame(2, 60));
    });
}
