//! Applies a document for a minute, shows what runs, and keeps it: `cargo run --example apply -- SOCKET FILE`.

use quiver_client::Apply;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (socket, file) = (words.next().ok_or("SOCKET FILE")?, words.next().ok_or("SOCKET FILE")?);
    let router = quiver_client::Router::unix(socket).await?;
    let document = std::fs::read_to_string(file)?;
    let how = Apply { confirm_seconds: 60, comment: "by the example".into(), ..Apply::default() };
    match router.apply(&document, how).await {
        Ok(done) => println!("{}", done.text),
        Err(error) => {
            for info in &error.infos {
                eprintln!("line {}, column {}: {}: {}", info.line, info.column, info.object, info.message);
            }
            return Err(error.into());
        }
    }
    print!("{}", router.command("show interface").await?);
    router.confirm().await?;
    Ok(())
}
