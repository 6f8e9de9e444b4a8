// A plain Redlock, which wants the same lock as the clients of this library, again and again:
//
//     node redlock.js ROOM RESOURCE URL...
//
// Only a holder of the lock may be in the room, which is a file that exists while somebody is inside. Prints `cycle` for
// each cycle, and `overlap` if somebody else was inside. Ends with its standard input.
import { open, unlink } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

import Redis from "ioredis";
import Redlock, { ExecutionError } from "redlock";

const [room, resource, ...masters] = process.argv.slice(2);
// It tries again after 4 to 64 ms, as often as it does by default, and only then releases what it got. If it tried on without an end, it could
// meet its own keys for ever: each one that expires it gets back alone, and one key is no majority.
const settings = { retryCount: 10, retryDelay: 34, retryJitter: 30 };
const redlock = new Redlock(masters.map((master) => new Redis(master)), settings);
// Every attempt that meets another holder is reported as an error.
redlock.on("error", () => {});
process.stdin.on("end", () => process.exit(0)).resume();

async function enter() {
    try {
        await (await open(room, "wx")).close();
        return true;
    } catch (error) {
        if (error.code === "EEXIST") {
            return false;
        }
        throw error;
    }
}

// It keeps what it got on a minority when it tries again, and then meets its own keys until they expire. On a busy machine,
// it may stand still for longer than a few hundred milliseconds, and would be inside beside the next holder.
const ttl = 1000;

async function acquire() {
    for (;;) {
        try {
            return await redlock.acquire([resource], ttl);
        } catch (error) {
            if (!(error instanceof ExecutionError)) {
                throw error;
            }
        }
    }
}

for (;;) {
    const lock = await acquire();
    if (await enter()) {
        await sleep(2);
        await unlink(room);
        console.log("cycle");
    } else {
        console.log("overlap");
    }
    await lock.release();
}
