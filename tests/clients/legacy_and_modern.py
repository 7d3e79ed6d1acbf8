"""Lists and calls the tools over stdio with the official Python client, in both eras.

    python legacy_and_modern.py TOOLSERVER ROOT BLOBS
"""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters


async def check(mode: str, server: StdioServerParameters) -> None:
    async with Client(server, mode=mode) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        wanted = ["edit_file", "glob", "grep", "inspect", "list_dir", "read_file", "shell", "write_file"]
        assert names == wanted, names

        small = await client.call_tool("read_file", {"path": "a.txt"})
        assert not small.is_error and small.content[0].text == "hello\nworld\n", small

        large = await client.call_tool("shell", {"command": "seq 1 5000"})
        assert large.content[0].text.startswith("[blob:"), large
        assert len(large.content[0].text.encode()) <= 400
        facts = large.meta["dev.toolserver/blob"]
        assert facts["lines"] == 5000 and large.content[1].type == "resource_link", large
        assert large.content[1].uri == "toolserver://blob/" + facts["id"], large

        for blob_id in (facts["name"], facts["id"]):
            part = await client.call_tool("inspect", {"blob_id": blob_id, "selector": "lines:4999-5000"})
            assert part.content[0].text == "4999\n5000\n[lines 4999-5000 of 5000]", part

        resource = await client.read_resource(large.content[1].uri)
        assert resource.contents[0].text.endswith("\n4999\n5000\n")

        for name, arguments, told in [
            ("read_file", {"path": "../outside"}, "outside the directories"),
            ("read_file", {"path": "missing"}, "does not exist"),
            ("read_file", {"path": 5}, "/path: 5 is not of type"),
            ("read_file", {"path": "."}, "is a directory"),
        ]:
            failed = await client.call_tool(name, arguments)
            assert failed.is_error and told in failed.content[0].text, failed
        try:
            await client.call_tool("reed_file", {})
        except Exception as error:
            assert "did you mean read_file" in str(error), error
        else:
            raise AssertionError("an unknown tool was called")
    print(f"python client, {mode}: ok", json.dumps(facts["kind"]))


async def main() -> None:
    binary, root, blobs = sys.argv[1:]
    server = StdioServerParameters(command=binary, args=["--root", root, "--blobs", blobs])
    for mode in ("legacy", "auto"):
        await check(mode, server)


asyncio.run(main())
