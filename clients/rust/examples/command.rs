//! Runs a command: `cargo run --example command -- SOCKET WORDS...`.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (socket, words) = words.split_first().ok_or("SOCKET WORDS...")?;
    let router = quiver_client::Router::unix(socket).await?;
    print!("{}", router.command(&words.join(" ")).await?);
    Ok(())
}
