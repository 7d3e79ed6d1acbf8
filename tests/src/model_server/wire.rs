//! Just enough HTTP to read a request and to break a reply at any byte.

use std::io;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::reply::{Ending, Reply};

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    /// The method.
    pub method: String,
    /// The path.
    pub path: String,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; null when it is no JSON.
    pub body: Value,
}

impl Received {
    /// Returns the value of a header, named in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Reads one request; `None` when the client closes first.
pub(super) async fn receive(stream: &mut TcpStream) -> io::Result<Option<Received>> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut start = lines
        .next()
        .unwrap_or_default()
        .split(' ')
        .map(str::to_owned);
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers: Vec<_> = headers
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .and_then(|(_, value)| value.parse().ok());
    let body_start = head_end + 4;
    while bytes.len() < body_start + length.unwrap_or(0) {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(Received {
        method: start.next().unwrap_or_default(),
        path: start.next().unwrap_or_default(),
        body: serde_json::from_slice(&bytes[body_start..]).unwrap_or_default(),
        headers,
    }))
}

/// How a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Played {
    ByServer,
    HungUp,
}

impl Played {
    pub(super) fn is_hung_up(self) -> bool {
        self == Self::HungUp
    }
}

/// Sends a reply as far as its ending allows.
pub(super) async fn play(mut stream: TcpStream, reply: &Reply) -> Played {
    // Small pieces must leave as they are written, or a test of them tests nothing.
    let _ = stream.set_nodelay(true);
    if let Some(gate) = &reply.gate {
        tokio::select! {
            () = gate.notified() => {}
            () = closed(&mut stream) => return Played::HungUp,
        }
    }
    let mut room = match reply.ending {
        Ending::Complete => usize::MAX,
        Ending::Cut(bytes) | Ending::Reset(bytes) | Ending::Stall(bytes) => bytes,
    };
    for write in reply.wire() {
        let part = &write[..write.len().min(room)];
        if stream.write_all(part).await.is_err() {
            return Played::HungUp;
        }
        room -= part.len();
        if room == 0 {
            break;
        }
    }
    match reply.ending {
        Ending::Complete | Ending::Cut(_) => {
            // The client may hang up first; either way the connection is over.
            let _ = stream.shutdown().await;
            Played::ByServer
        }
        Ending::Reset(_) => {
            reset(&stream);
            Played::ByServer
        }
        Ending::Stall(_) => {
            closed(&mut stream).await;
            Played::HungUp
        }
    }
}

/// Makes the system send a reset instead of an orderly end when the socket is dropped.
fn reset(stream: &TcpStream) {
    stream
        .set_zero_linger()
        .expect("a connected socket takes the option");
}

/// Waits until the client closes its end.
async fn closed(stream: &mut TcpStream) {
    let mut ignored = [0; 64];
    while matches!(stream.read(&mut ignored).await, Ok(1..)) {}
}
