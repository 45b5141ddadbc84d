//! A program as people write them for pods: it finds its cluster by itself and lists the pods beside it. The tests put it into an image.

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "its answer is what it says")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    println!("server {}", client.apiserver_version().await?.git_version);
    for pod in Api::<Pod>::default_namespaced(client).list(&ListParams::default()).await? {
        println!("pod {}", pod.name_any());
    }
    Ok(())
}
