//! HTTP CONNECT proxy: routes connections by name to the link of that party.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Link, carry};

/// Longest accepted request head, in bytes.
const MAX_REQUEST_BYTES: usize = 4096;

/// Forwards one connection over the link to the requested party.
pub(super) async fn connection(mut client: TcpStream, links: Arc<[Link]>) {
    let Some(name) = wanted(&mut client).await else { return };
    let Some(link) = links.iter().find(|link| link.parties().1 == name) else {
        // `Err` means that the connection is already closed.
        let _ = client.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n").await;
        return;
    };
    if client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.is_ok() {
        carry::connection(client, Arc::clone(&link.0)).await;
    }
}

/// Reads the name in `CONNECT name:port HTTP/1.1`; no bytes may follow the request before its answer.
async fn wanted(client: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let read = client.read_buf(&mut request).await.ok()?;
        if read == 0 || request.len() > MAX_REQUEST_BYTES {
            return None;
        }
    }
    let request = String::from_utf8(request).ok()?;
    let (name, _port) = request.strip_prefix("CONNECT ")?.split(' ').next()?.split_once(':')?;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use crate::chaos::Chaos;
    use crate::wait::STEP_TIMEOUT;

    #[test]
    fn a_name_is_a_link() {
        let chaos = Chaos::new();
        let far = TcpListener::bind("127.0.0.1:0").unwrap();
        let links =
            vec![chaos.link("a", "b", ([127, 0, 0, 1], 1).into()), chaos.link("a", "c", far.local_addr().unwrap())];
        let proxy = chaos.proxy(links.clone());
        let ask = |name: &str| {
            let mut stream = TcpStream::connect(proxy).unwrap();
            stream.set_read_timeout(Some(STEP_TIMEOUT)).unwrap();
            write!(stream, "CONNECT {name}:443 HTTP/1.1\r\nHost: {name}:443\r\n\r\n").unwrap();
            let mut answer = vec![0; 12];
            stream.read_exact(&mut answer).unwrap();
            (stream, String::from_utf8(answer).unwrap())
        };
        let (mut stream, answer) = ask("c");
        assert_eq!(answer, "HTTP/1.1 200");
        let (mut other, _) = far.accept().unwrap();
        write!(stream, "hello").unwrap();
        let mut heard = [0; 5];
        other.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"hello");
        assert_eq!((links[0].marks().connections, links[1].marks().connections), (0, 1));
        assert_eq!(ask("d").1, "HTTP/1.1 502");
    }
}
