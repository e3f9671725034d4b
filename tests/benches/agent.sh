#!/bin/sh
# The agent beside others on one scripted model: tests/benches/agent.sh STOCKADE [ROUNDS] [STEPS] [FOLDER].
# FOLDER has the executables of the others (claude, codex, opencode); one that is not there is left out, and said so.
# Needs Python 3. Each program answers one prompt, for which the model runs `true` STEPS times. Prints medians, and ratios to
# the best of the others: time to the first request and resident memory then, time of a step besides the model, the whole
# run, peak of memory.
exec python3 - "$@" << 'END'
import http.server, json, os, shutil, signal, statistics, subprocess, sys, tempfile, threading, time

STOCKADE = os.path.realpath(sys.argv[1])
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
STEPS = int(sys.argv[3]) if len(sys.argv) > 3 else 20
FOLDER = os.path.realpath(sys.argv[4]) if len(sys.argv) > 4 else ""
LONGEST = 300  # seconds of a run


class Model(http.server.BaseHTTPRequestHandler):
    """Asks for `true` until a conversation has STEPS results, then says that it is done."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    seen = []  # of requests with tools: when they came, their bytes, when the answer was out
    lock = threading.Lock()

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.reply(404, b"{}", "application/json")

    do_HEAD = do_GET

    def reply(self, status, body, kind):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_POST(self):
        came = time.monotonic()
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = self.path.split("?")[0]
        try:
            body = json.loads(raw)
        except ValueError:
            body = {}
        tools = {name(tool): tool for tool in body.get("tools") or []}
        counts = bool(tools) and not path.endswith("count_tokens")
        if path.endswith("/responses"):
            results = sum(it.get("type", "").endswith("call_output") for it in body.get("input", []) if isinstance(it, dict))
            out = responses(tools, results)
        elif path.endswith("/messages"):
            blocks = [b for m in body.get("messages", []) for b in m["content"] if isinstance(m["content"], list)]
            out = messages(tools, sum(b.get("type") == "tool_result" for b in blocks))
        else:
            return self.reply(200, b'{"input_tokens": 1}' if path.endswith("count_tokens") else b"{}", "application/json")
        if body.get("stream"):
            self.reply(200, out.encode(), "text/event-stream")
        else:
            self.reply(200, whole(out).encode(), "application/json")
        if counts:
            with Model.lock:
                Model.seen.append((came, len(raw), time.monotonic()))


def name(tool):
    return tool.get("name") or tool.get("function", {}).get("name") or tool.get("type", "")


def event(kind, **fields):
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"


def shell(tools):
    return next((it for it in ("Bash", "bash", "exec_command", "shell_command", "shell") if it in tools), None)


def messages(tools, results):
    usage = {"input_tokens": 10, "output_tokens": 5}
    tool = shell(tools) if results < STEPS else None
    out = event("message_start", message={"id": f"msg_{results}", "type": "message", "role": "assistant", "model": "scripted",
        "content": [], "stop_reason": None, "usage": usage})
    if tool:
        block = {"type": "tool_use", "id": f"toolu_{results}", "name": tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps({"command": "true", "description": "nothing"})}
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}
    out += event("content_block_start", index=0, content_block=block) + event("content_block_delta", index=0, delta=delta)
    out += event("content_block_stop", index=0)
    stop = {"stop_reason": "tool_use" if tool else "end_turn", "stop_sequence": None}
    return out + event("message_delta", delta=stop, usage=usage) + event("message_stop")


def whole(_):
    return json.dumps({"id": "msg", "type": "message", "role": "assistant", "model": "scripted", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "done"}], "usage": {"input_tokens": 1, "output_tokens": 1}})


def responses(tools, results):
    tool = shell(tools) if results < STEPS else None
    if tool:
        words = {"exec_command": {"cmd": "true"}, "shell": {"command": ["true"]}}.get(tool, {"command": "true"})
        item = {"type": "function_call", "id": f"fc_{results}", "call_id": f"call_{results}", "name": tool,
            "arguments": json.dumps(words), "status": "completed"}
    else:
        item = {"type": "message", "id": f"m_{results}", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "done", "annotations": []}]}
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0}}
    answer = {"id": f"resp_{results}", "object": "response", "status": "completed", "output": [item], "usage": usage}
    return (event("response.created", response={**answer, "status": "in_progress", "output": []})
        + event("response.output_item.added", output_index=0, item=item)
        + event("response.output_item.done", output_index=0, item=item)
        + event("response.completed", response=answer))


def tree(root):
    """Resident bytes of a process and of all below it."""
    below, pages = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            below.setdefault(int(fields[1]), []).append(int(entry))
            pages[int(entry)] = int(fields[21])
    total, waiting = 0, [root]
    while waiting:
        pid = waiting.pop()
        total += pages.get(pid, 0)
        waiting += below.get(pid, [])
    return total * os.sysconf("SC_PAGE_SIZE")


def run(words, more, url):
    top = tempfile.mkdtemp(dir=os.path.expanduser("~"))
    os.chmod(top, 0o700)
    for folder in ("home/.config", "project/.git/objects", "project/.git/refs/heads", "state", "run"):
        os.makedirs(f"{top}/{folder}")
    with open(f"{top}/project/.git/HEAD", "w") as file:
        file.write("ref: refs/heads/main\n")
    os.chmod(f"{top}/run", 0o700)
    env = {"PATH": os.environ["PATH"], "HOME": f"{top}/home", "LANG": "C.UTF-8", "XDG_STATE_HOME": f"{top}/state",
        "XDG_RUNTIME_DIR": f"{top}/run", "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-none", "OPENAI_API_KEY": "sk-none", **more}
    Model.seen.clear()
    with open(f"{top}/said", "wb") as said:
        begun = time.monotonic()
        child = subprocess.Popen(words, cwd=f"{top}/project", env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True)
        first, peak = 0, 0
        while child.poll() is None and time.monotonic() - begun < LONGEST:
            now = tree(child.pid)
            peak = max(peak, now)
            if not first and Model.seen:
                first = now
            time.sleep(0.005)
        took = time.monotonic() - begun
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    seen = list(Model.seen)
    with open(f"{top}/said", errors="replace") as said:
        words = said.read()
    shutil.rmtree(top, ignore_errors=True)
    if len(seen) < STEPS + 1:
        raise RuntimeError(f"{len(seen)} of {STEPS + 1} requests came; it said: {words[-400:].strip()}")
    gaps = [after[0] - before[2] for before, after in zip(seen, seen[1:])]
    return {"first request, ms": (seen[0][0] - begun) * 1000, "first request, KB": seen[0][1] / 1000, "memory then, MiB": first / 2**20,
        "a step, ms": statistics.median(gaps) * 1000, "whole run, ms": took * 1000, "peak of memory, MiB": peak / 2**20}


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_address[1]}"
provider = ["model_provider=b", "model_providers.b.name=b", f"model_providers.b.base_url={url}/v1", "model_providers.b.wire_api=responses",
    "model_providers.b.env_key=OPENAI_API_KEY"]
opencode = json.dumps({"autoupdate": False, "share": "disabled", "permission": {"bash": "allow"},
    "provider": {"anthropic": {"options": {"baseURL": f"{url}/v1", "apiKey": "sk-none"}}}})
programs = {
    "stockade": ([STOCKADE, "agent", "-p", "go"], {}),
    "claude": (["-p", "go", "--allowedTools", "Bash"], {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}),
    "codex": (["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m", "gpt-5"]
        + [word for setting in provider for word in ("-c", setting)] + ["go"], {}),
    "opencode": (["run", "--model", "anthropic/claude-sonnet-4-5", "go"], {"OPENCODE_CONFIG_CONTENT": opencode}),
}
figures = {}
for program, (words, more) in programs.items():
    if program != "stockade":
        path = os.path.join(FOLDER, program) if FOLDER else shutil.which(program)
        if not path or not os.path.exists(path):
            print(f"{program}: left out, it is not installed")
            continue
        words = [path, *words]
    try:
        rounds = [run(words, more, url) for _ in range(ROUNDS)]
    except RuntimeError as error:
        print(f"{program}: left out, {error}")
        continue
    figures[program] = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
if "stockade" not in figures:
    sys.exit(1)
print(f"{STEPS} steps of `true`, medians of {ROUNDS} runs")
print(f"{'':24}" + "".join(f"{program:>12}" for program in figures) + f"{'ratio':>9}")
for key, own in figures["stockade"].items():
    others = [of[key] for program, of in figures.items() if program != "stockade"]
    ratio = f"{own / min(others):9.2f}" if others else f"{'-':>9}"
    print(f"{key:24}" + "".join(f"{of[key]:12.1f}" for of in figures.values()) + ratio)
END
