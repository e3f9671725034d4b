"""A listener that was taken over: `hostile.py ATTACK`, started as root, which takes the listener's socket and becomes its user.

It prints `heard` when the keeper still hears it after the attack, else `hung up`. Each attack takes one connection that somebody
makes to the socket of the service, except those that need none.
"""
import array, os, pwd, socket, struct, sys

PUBLIC, KEEPER = "/run/stockade/gateway.sock", "/run/stockade/keeper.sock"
attack = sys.argv[1]
if os.path.exists(PUBLIC):
    os.unlink(PUBLIC)
public = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
public.bind(PUBLIC)
os.chmod(PUBLIC, 0o666)
public.listen(512)
own = pwd.getpwnam("stockade")
os.setgroups([])
os.setgid(own.pw_gid)
os.setuid(own.pw_uid)


def dial():
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel.connect(KEEPER)
    return channel


def peer(connection):
    pid, uid, gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return uid, gid, pid


def send(channel, uid, gid, pid, descriptors, kind=1, rest=b""):
    passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    channel.sendmsg([struct.pack("!4I", kind, uid, gid, pid) + rest], passed)


def take():
    connection, _ = public.accept()
    return connection


def is_heard(channel):
    """Says whether the keeper is still at the other end, after it has taken all that was sent."""
    try:
        # Nothing else ever comes from there.
        channel.settimeout(3)
        return channel.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:
        return False


channel = dial()
print("ready", flush=True)
_, ticket = os.pipe()
if attack == "none":
    connection = take()
    send(channel, *peer(connection), [connection.fileno(), ticket])
elif attack == "twice":
    connection = take()
    for _ in range(3):
        send(channel, *peer(connection), [connection.fileno(), ticket])
elif attack == "other-user":
    connection = take()
    send(channel, 2002, 2002, peer(connection)[2], [connection.fileno(), ticket])
elif attack == "other-process":
    connection = take()
    uid, gid, _ = peer(connection)
    send(channel, uid, gid, 1, [connection.fileno(), ticket])
elif attack == "two-connections":
    first = take()
    second = take()
    send(channel, *peer(first), [second.fileno(), ticket])
elif attack == "end-of-a-client":
    # The kernel says of this end that its peer is the user who listens there and sends back what he is sent.
    echo = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    echo.connect(sys.argv[2])
    echo.sendall(b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{}}\n')
    send(channel, *peer(echo), [echo.fileno(), ticket])
elif attack == "answer":
    # In the place of the gateway: whatever is asked, the answer is yes.
    connection = take()
    connection.recv(65536)
    allowed = b'{"verdict":"allow","exit_code":0,"status":{"code":0},"output":"","permissionDecision":"allow"}'
    for number in range(3):
        connection.sendall(b'{"jsonrpc":"2.0","id":%d,"result":%s}\n' % (number, allowed))
elif attack == "pair":
    mine, _ = socket.socketpair()
    send(channel, *peer(mine), [mine.fileno(), ticket])
elif attack == "named-pair":
    # Both ends are the listener's own, with the name of the service.
    mine, other = socket.socketpair()
    os.chdir("/tmp")
    other.bind("\0named-pair")
    try:
        mine.bind(PUBLIC)
    except OSError:
        pass  # the folder is root's
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.bind("\0a-client")
    connection.connect(PUBLIC)
    accepted = take()
    send(channel, *peer(accepted), [accepted.fileno(), ticket])
elif attack == "own":
    # A true connection of the listener's own user, who gets no gateway.
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.connect(PUBLIC)
    connection = take()
    send(channel, *peer(connection), [connection.fileno(), ticket])
elif attack == "listening":
    send(channel, 2001, 2001, 1, [public.fileno(), ticket])
elif attack == "file":
    send(channel, 2001, 2001, 1, [os.open("/etc/passwd", os.O_RDONLY), ticket])
elif attack == "folder":
    send(channel, 2001, 2001, 1, [os.open("/", os.O_PATH), ticket])
elif attack == "ticket":
    connection = take()
    send(channel, *peer(connection), [connection.fileno(), os.open("/dev/null", os.O_RDWR)])
elif attack == "half":
    connection = take()
    channel.sendmsg([struct.pack("!3I", 1, *peer(connection)[:2])],
                    [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [connection.fileno(), ticket]))])
elif attack == "long":
    connection = take()
    send(channel, *peer(connection), [connection.fileno(), ticket], rest=b"x" * 4096)
elif attack == "kind":
    connection = take()
    send(channel, *peer(connection), [connection.fileno(), ticket], kind=2)
elif attack == "many-descriptors":
    connection = take()
    send(channel, *peer(connection), [connection.fileno()] * 200)
elif attack == "without":
    send(channel, 2001, 2001, 1, [])
elif attack == "flood":
    # As fast as it can: connections that nobody hears, and bytes that mean nothing.
    channels = [channel]
    for _ in range(400):
        other = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        other.setblocking(False)
        try:
            other.connect(KEEPER)
            channels.append(other)
        except OSError:
            other.close()
    for number in range(20000):
        other = channels[number % len(channels)]
        other.setblocking(False)
        try:
            other.send(os.urandom(16))
        except OSError:
            pass
    channel.setblocking(True)
else:
    sys.exit("no such attack: " + attack)
print("heard" if is_heard(channel) else "hung up", flush=True)
