//! The program with which docs/api.md begins.
#![allow(missing_docs, reason = "a program has no readers of its documentation")]

#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result<(), quiver_client::Error> {
    let path = std::env::var("QUIVER_API").unwrap_or("/run/quiver/api.sock".into());
    let router = quiver_client::Router::unix(path).await?;
    print!("{}", router.command("show interface").await?);
    let document = router.dump().await?.replace("mtu: 1500", "mtu: 9000");
    for step in router.plan(&document, false).await?.steps {
        println!("{} {}", step.text, step.touches);
    }
    println!("{}", router.apply(&document, quiver_client::Apply::default()).await?.text);
    Ok(())
}
