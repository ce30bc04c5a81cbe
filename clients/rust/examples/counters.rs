//! Prints what the counters of interfaces have grown by, each second: `cargo run --example counters -- SOCKET SECONDS`.

use std::collections::HashMap;
use std::time::Duration;

use tokio_stream::StreamExt;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (socket, seconds) = (words.next().ok_or("SOCKET SECONDS")?, words.next().ok_or("SOCKET SECONDS")?);
    let router = quiver_client::Router::unix(socket).await?;
    let readings = router.watch_counters(&["interface-*"], Duration::from_secs(1)).await?;
    let mut readings = std::pin::pin!(readings.take(seconds.parse::<usize>()? + 1));
    let mut before = HashMap::new();
    while let Some(reading) = readings.next().await {
        for value in reading?.values {
            let was = before.insert((value.name.clone(), value.of), value.value);
            if was.is_some_and(|was| was != value.value) {
                println!("{} {}: {}", value.name, value.of_names.join(" "), value.value - was.unwrap_or(0));
            }
        }
    }
    Ok(())
}
