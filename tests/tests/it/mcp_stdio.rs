//! The tool server on its standard input and output, line by line, in both eras.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use serde_json::{Value, json};
use tests::binaries::Place;

/// A client that writes lines and reads lines.
struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Client {
    fn start(place: &Place) -> Self {
        let mut command = place.command("toolserver");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            stdin,
            stdout,
        }
    }

    fn send(&mut self, message: &Value) {
        let mut line = message.to_string();
        line.push('\n');
        self.stdin
            .as_mut()
            .unwrap()
            .write_all(line.as_bytes())
            .unwrap();
    }

    /// Reads the next message; every line must be one.
    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let message: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        assert_eq!(message["jsonrpc"], "2.0");
        message
    }

    /// Sends a request and returns its answer; notifications before it are returned too.
    fn ask(&mut self, id: u32, method: &str, params: Value) -> (Value, Vec<Value>) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let mut notifications = Vec::new();
        loop {
            let message = self.next();
            if message["id"] == id {
                return (message, notifications);
            }
            notifications.push(message);
        }
    }

    fn initialize(&mut self) -> Value {
        let (reply, _) = self.ask(
            0,
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
        );
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        reply
    }

    /// Calls a shell command that never ends, and waits until it runs. Returns its directory below `/proc`.
    fn start_shell(&mut self, place: &Place, id: u32) -> PathBuf {
        let command = "echo $$ > shell.pid; mkfifo go; cat go; sleep 300";
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "shell", "arguments": {"command": command}}}));
        let pipe = place.root().join("go");
        while !pipe.exists() {
            self.ask(id + 1, "ping", json!({}));
        }
        // Opening the pipe waits for the shell's end of it.
        drop(std::fs::OpenOptions::new().write(true).open(pipe).unwrap());
        let pid = std::fs::read_to_string(place.root().join("shell.pid")).unwrap();
        Path::new("/proc").join(pid.trim())
    }

    fn end(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.child.wait().unwrap().code()
    }
}

/// What every request of the stateless revision carries.
fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    });
    params
}

#[test]
fn the_handshake_era_works() {
    let place = Place::with(&[("a.txt", "hello\n")]);
    let mut client = Client::start(&place);
    let reply = client.initialize();
    assert_eq!(reply["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(reply["result"]["serverInfo"]["name"], "toolserver");
    assert!(
        reply["result"]["instructions"]
            .as_str()
            .unwrap()
            .contains("inspect")
    );
    let (listed, _) = client.ask(1, "tools/list", json!({}));
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 8);
    let (called, _) = client.ask(
        2,
        "tools/call",
        json!({"name": "read_file", "arguments": {"path": "a.txt"}}),
    );
    assert_eq!(
        called["result"],
        json!({"content": [{"type": "text", "text": "hello\n"}], "isError": false})
    );
    let (prompts, _) = client.ask(3, "prompts/list", json!({}));
    assert_eq!(prompts["error"]["code"], -32601);
    assert_eq!(client.end(), Some(0));
}

#[test]
fn the_stateless_era_works() {
    let place = Place::with(&[("a.txt", "hello\n")]);
    let mut client = Client::start(&place);
    let (discovered, _) = client.ask(0, "server/discover", modern(json!({})));
    let versions = discovered["result"]["supportedVersions"]
        .as_array()
        .unwrap();
    assert!(versions.contains(&json!("2026-07-28")), "{discovered}");
    let (called, _) = client.ask(
        1,
        "tools/call",
        modern(json!({"name": "read_file", "arguments": {"path": "a.txt"}})),
    );
    assert_eq!(called["result"]["content"][0]["text"], "hello\n");
    assert_eq!(called["result"]["resultType"], "complete");
    assert_eq!(client.end(), Some(0));
}

#[test]
fn errors_of_the_protocol_and_of_tools_are_told_apart() {
    let place = Place::with(&[]);
    let mut client = Client::start(&place);
    client.initialize();
    let mut call = |id, name: &str, arguments: Value, meta: Value| {
        client
            .ask(
                id,
                "tools/call",
                json!({"name": name, "arguments": arguments, "_meta": meta}),
            )
            .0
    };
    let unknown = call(1, "reed_file", json!({}), json!({}));
    assert_eq!(unknown["error"]["code"], -32602);
    assert!(
        unknown["error"]["message"]
            .as_str()
            .unwrap()
            .contains("did you mean read_file")
    );
    let wrong = call(2, "read_file", json!({"pth": "x"}), json!({}));
    assert_eq!(wrong["result"]["isError"], true);
    assert!(
        wrong["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("accepted arguments: path")
    );
    let outside = call(3, "read_file", json!({"path": "/etc/passwd"}), json!({}));
    assert_eq!(outside["result"]["isError"], true);
    let context = call(
        4,
        "list_dir",
        json!({}),
        json!({"dev.toolserver/context": {"callId": "x"}}),
    );
    assert_eq!(context["error"]["code"], -32602);
    assert!(
        context["error"]["message"]
            .as_str()
            .unwrap()
            .contains("batchId"),
        "{context}"
    );
    let fine = call(
        5,
        "list_dir",
        json!({}),
        json!({"dev.toolserver/context": {"callId": "x", "batchId": "b", "callIndex": 3}}),
    );
    assert_eq!(fine["result"]["isError"], false, "{fine}");
}

#[test]
fn jr10_wrong_parameters_are_not_an_unknown_method() {
    let place = Place::with(&[]);
    let mut client = Client::start(&place);
    client.initialize();
    let cases = [
        json!({}),
        json!({"name": "read_file", "arguments": "x"}),
        json!({"name": "read_file", "arguments": []}),
        json!({"name": 5}),
    ];
    for (params, id) in cases.into_iter().zip(1..) {
        let (reply, _) = client.ask(id, "tools/call", params.clone());
        assert_eq!(reply["error"]["code"], -32602, "{params}: {reply}");
        assert!(
            reply["error"]["message"]
                .as_str()
                .unwrap()
                .contains("arguments (an object)"),
            "{reply}"
        );
    }
    assert_eq!(
        client.ask(9, "no/such/method", json!({})).0["error"]["code"],
        -32601
    );
    assert_eq!(client.end(), Some(0));
}

/// Fault JR16: a client that never reads cannot keep the server from ending.
#[test]
fn jr16_a_client_that_does_not_read_cannot_hold_the_server() {
    let text = "0123456789abcde\n".repeat(1000);
    for signal in [None, Some("-TERM")] {
        let place = Place::with(&[("a.txt", &text)]);
        let mut client = Client::start(&place);
        client.initialize();
        for id in 1..40 {
            client.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
                "params": {"name": "read_file", "arguments": {"path": "a.txt"}}}));
        }
        match signal {
            None => assert_eq!(client.end(), Some(0)),
            Some(signal) => {
                let pid = client.child.id().to_string();
                assert!(
                    std::process::Command::new("kill")
                        .args([signal, &pid])
                        .status()
                        .unwrap()
                        .success()
                );
                assert_eq!(client.child.wait().unwrap().code(), Some(143));
            }
        }
    }
}

#[test]
fn jr14_a_cancelled_call_is_stopped_and_gets_no_reply() {
    let place = Place::with(&[]);
    let mut client = Client::start(&place);
    client.initialize();
    let gone = client.start_shell(&place, 7);
    client.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}),
    );
    for id in 100.. {
        let (reply, others) = client.ask(id, "ping", json!({}));
        assert!(
            reply["error"].is_null() && others.is_empty(),
            "{reply} {others:?}"
        );
        if !gone.exists() {
            break;
        }
        assert!(id < 1_000_000, "the shell is still there");
    }
    assert_eq!(client.end(), Some(0));
}

/// Faults SH02 and JR15: nothing a call started outlives the server, however it ends.
#[test]
fn sh02_commands_end_with_the_server() {
    for end in ["close", "TERM", "INT", "HUP"] {
        let place = Place::with(&[]);
        let mut client = Client::start(&place);
        client.initialize();
        let process = client.start_shell(&place, 7);
        let status = if end == "close" {
            client.end()
        } else {
            let pid = client.child.id().to_string();
            assert!(
                std::process::Command::new("kill")
                    .args([&format!("-{end}"), &pid])
                    .status()
                    .unwrap()
                    .success()
            );
            client.child.wait().unwrap().code()
        };
        let expected = match end {
            "close" => 0,
            "TERM" => 143,
            "INT" => 130,
            _ => 129,
        };
        assert_eq!(status, Some(expected), "{end}");
        assert!(!process.exists(), "{end}: the shell is still there");
    }
}

#[test]
fn progress_is_told_when_asked_for_and_rises() {
    let place = Place::with(&[]);
    let mut client = Client::start(&place);
    client.initialize();
    let params = json!({"name": "shell", "arguments": {"command": "sleep 4; echo done"}, "_meta": {"progressToken": "p"}});
    let (reply, notifications) = client.ask(1, "tools/call", params);
    assert_eq!(reply["result"]["content"][0]["text"], "done\n");
    let progress: Vec<f64> = notifications
        .iter()
        .map(|n| {
            assert_eq!(
                (&n["method"], &n["params"]["progressToken"]),
                (&json!("notifications/progress"), &json!("p"))
            );
            n["params"]["progress"].as_f64().unwrap()
        })
        .collect();
    assert!(
        !progress.is_empty() && progress.windows(2).all(|pair| pair[0] < pair[1]),
        "{progress:?}"
    );
    assert_eq!(client.end(), Some(0));
}

#[test]
fn jr15_the_end_of_input_and_signals_end_the_server() {
    let place = Place::with(&[]);
    assert_eq!(
        Client::start(&place).end(),
        Some(0),
        "a client that says nothing"
    );
    let mut client = Client::start(&place);
    client.initialize();
    let status = std::process::Command::new("kill")
        .args(["-TERM", &client.child.id().to_string()])
        .status();
    assert!(status.unwrap().success());
    assert_eq!(client.child.wait().unwrap().code(), Some(143));
}
