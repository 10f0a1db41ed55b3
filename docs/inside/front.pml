/* The native request path, for SPIN: who reads a request, who has the end of the journal, and what is answered when.
 *
 * Three clients ask, two threads read the device, and a disk writes until it fails. `front-model.md` says what is proved,
 * and which function a step stands for. Each -DWITHOUT_... takes one rule away, and SPIN finds what breaks then. With
 * -DDEFERS Python flushes what C staged, as for databases.
 */
mtype = { WRITE, PART, CLOSE, LOOK };

#define CLIENTS 3
#define LINES 4 /* 0 and 1 of client 0, 2 and 3 of client 1 */
#define BIT(number) (1 << (number))
#define COVERS(set, lines) (((lines) & ~(set)) == 0)

/* What the kernel has for the mount, and what was read and is for Python: a kind, of whom, to which file, which lines. */
chan device = [4] of { mtype, byte, byte, byte };
chan queue = [4] of { mtype, byte, byte, byte };
/* Whether it went well; lines that were written, or that are shown. */
chan answers[CLIENTS] = [2] of { bool, byte };

byte told = 0;              /* lines that somebody was told of */
byte ended = 0;             /* clients that heard all they asked for, of ASKING */
#ifndef ASKING
#define ASKING CLIENTS
#endif

bool device_locked = false; /* `front.device` */
bool row_fresh = false;     /* something is kept, in this epoch */
byte row = 0;
byte releases = 0;          /* closes of written files that Python has not answered */
bool away = true;           /* Python does not wait for requests */
bool rung = false;          /* the eventfd */

bool lent = false, held = true; /* the end of the journal is lent while it is not held */
bool tail_failed = false;   /* `tail.error` */
byte staged = 0;            /* lines in C, whose writers wait */
byte published = 0;         /* lines of C that Python does not know of */
byte seen = 0;              /* those of `staged` that are left to Python to flush, */
byte deferred = 0;          /* those that it knows of, */
byte settling = 0;          /* and those that it flushes */

byte shown = 0;             /* lines that Python answers with */
byte unfinished = 0;
byte py_staged = 0, py_waiting = 0; /* and those of them whose writers wait: others were closed */
byte flushed = 0, flushed_for = 0;
bool flushing = false, flush_done = false, flush_failed = false; /* in a thread */
bool broken = false;        /* the store takes nothing any more, as Python knows it */
byte looking = 0, looked = 0; /* clients whose question's handler was suspended: before it looked, and behind that */
byte look_found[CLIENTS];

byte durable = 0;
bool disk_failed = false;
byte flushers = 0;          /* who is at the end of the journal */
bool answering = false;     /* C found an answer, and has not written it */

#define FREE (!device_locked) /* what is atomic behind it is done with the device held */

/* The end of the journal has one owner, and none any more once it failed. Lines of one file keep their order, and what
 * a closed file left comes before what its writer writes next. */
inline flush(lines, failed) {
    atomic {
        assert(flushers == 0 && !disk_failed);
        assert(!((lines) & BIT(1)) || COVERS(durable | (lines), BIT(0)));
        assert(!((lines) & BIT(3)) || COVERS(durable | (lines), BIT(2)));
        flushers = 1
    }
    atomic {
        flushers = 0;
        if
        :: durable = durable | (lines); failed = false
        :: disk_failed = true; failed = true
        fi
    }
}

inline answer_writers(lines, well) {
    atomic {
        at = 0;
        do
        :: at < LINES && ((lines) & BIT(at)) -> answers[at / 2]!(well), BIT(at); at++
        :: at < LINES && !((lines) & BIT(at)) -> at++
        :: at == LINES -> at = 0; break
        od
    }
}

/* ---- native/front ---- */

#ifdef WITHOUT_ORDER
#define OVERTAKES(file) false
#else
#define OVERTAKES(file) (queue??[WRITE, _, eval(file), _])
#endif
#ifdef WITHOUT_CLOSES
#define CLOSING false
#else
#define CLOSING (releases > 0)
#endif
#ifdef WITHOUT_RELEASES
#define RELEASING false
#else
#define RELEASING (releases > 0)
#endif
#ifdef WITHOUT_END
#define ENDED false
#else
#define ENDED tail_failed
#endif

#ifdef DEFERS
#define IN_PYTHON true
#else
#define IN_PYTHON false
#endif
#define NEWS (staged & ~seen)
#define SETTLES (deferred && !flushing)

#define MAY_PUBLISH(file) (!held && lent && !ENDED && !OVERTAKES(file) && !CLOSING)

/* All that wait get the same answer, once it is known. */
inline settle(failed) {
    atomic { FREE -> device_locked = true };
    if
    :: IN_PYTHON -> atomic { seen = staged; device_locked = false }
    :: !IN_PYTHON && staged ->
#ifdef WITHOUT_SYNC
        answer_writers(staged, true);
#endif
        flush(staged, failed);
        atomic {
#ifdef WITHOUT_FAILURE
            failed = false;
#endif
            tail_failed = tail_failed || failed;
            published = published | (failed -> 0 : staged);
#ifndef WITHOUT_NEXT_EPOCH
            row_fresh = false;
#endif
#ifndef WITHOUT_SYNC
            answer_writers(staged, !failed);
#endif
            staged = 0; failed = false; device_locked = false
        }
    :: !IN_PYTHON && !staged -> device_locked = false
    fi
}

/* One request: the device is held until it is answered or queued. */
inline read_one() {
    atomic { FREE -> queued = false;
        if
        :: nempty(device) -> device?kind, client, file, lines
        :: empty(device) -> kind = 0 /* another thread has it */
        fi;
        if
        :: !kind -> skip
        :: kind == WRITE && MAY_PUBLISH(file) -> staged = staged | lines
        :: kind == LOOK && row_fresh && !RELEASING -> answering = true; found = row
        :: kind && (kind != LOOK || !row_fresh || RELEASING) -> queued = true /* a write may not fit, or need a decision */
        fi;
        if
        :: kind == CLOSE -> releases++
        :: else -> skip
        fi;
        if
        :: queued -> queue!kind, client, file, lines
        :: else -> skip
        fi;
#ifndef WITHOUT_LOCK
        device_locked = answering
#endif
    };
    atomic {
        if
        :: kind == LOOK && !queued ->
            answers[client]!true, found;
            answering = false;
#ifndef WITHOUT_LOCK
            device_locked = false
#endif
        :: else -> skip
        fi;
        kind = 0; client = 0; file = 0; lines = 0; found = 0
    }
}

/* The thread that reads while Python is away. */
active proctype spare() {
    bool queued, failed, tells; mtype kind; byte client, file, lines, found, at;
end:
    do
    :: away && nempty(device) ->
        read_one();
        if
        :: NEWS -> settle(failed); tells = IN_PYTHON
        :: else -> skip
        fi;
        if
#ifndef WITHOUT_BELL
        :: queued && !away -> rung = true
#endif
#ifndef WITHOUT_NEWS
        :: tells && !away -> rung = true
#endif
        :: else -> skip
        fi;
        queued = false; tells = false
    od
}

/* ---- Python ---- */

inline revoke() {
    atomic { FREE -> row_fresh = false; assert(!answering) } /* nothing of before is being answered any more */
}

/* A close that is not published yet: who asks waits for that. */
#define ENDING ((py_staged & ~py_waiting) || (flushed & ~flushed_for))

inline answer_look(whose, what, fresh) {
    atomic { FREE -> answers[whose]!true, what;
#ifdef WITHOUT_EPOCHS
    row_fresh = true; row = what
#else
    if
    :: fresh -> row_fresh = true; row = what
    :: else -> skip
    fi
#endif
    }
}

/* What a flush of Python's came to. */
inline finish(failed) {
    atomic { FREE ->
        broken = broken || failed;
        shown = shown | (failed -> 0 : flushed);
        releases = releases - ((flushed & ~flushed_for) -> 1 : 0);
#ifdef WITHOUT_COUNT
        settling = staged;
#endif
        answer_writers(flushed_for | settling, !failed);
        row_fresh = row_fresh && !settling;
        staged = staged & ~settling; seen = seen & ~settling;
        flushed = 0; flushed_for = 0; settling = 0; failed = false
    }
}

/* Here, or in a thread; what comes while one is under way follows it. */
inline commit(failed) {
    atomic {
        if
        :: broken && FREE ->
            answer_writers(py_waiting | deferred, false);
            staged = staged & ~deferred; seen = seen & ~deferred;
            releases = releases - ((py_staged & ~py_waiting) -> 1 : 0)
        :: !broken && !flushing && (py_staged || deferred) ->
            flushed = py_staged | deferred; flushed_for = py_waiting | deferred; settling = deferred
        :: !broken && (flushing || !(py_staged || deferred)) -> skip
        fi;
        if
        :: broken || !flushing -> py_staged = 0; py_waiting = 0; deferred = 0
        :: else -> skip
        fi
    };
    if
    :: flushed && !flushing -> flush(flushed, failed); finish(failed)
    :: flushed && !flushing -> flushing = true
    :: !flushed || flushing -> skip
    fi
}

active proctype disk_thread() {
    bool failed;
end:
    do
    :: flushing && !flush_done ->
        flush(flushed, failed);
        atomic { flush_failed = failed; flush_done = true; failed = false }
    od
}

inline handle() {
    atomic { FREE -> queue?kind, client, file, lines; fresh = true; /* as of this epoch */
    if
    :: kind == LOOK && !ENDING -> found = shown; answer_look(client, found, fresh)
    :: kind == LOOK && !ENDING -> atomic { look_found[client] = shown; looked = looked | BIT(client) }
    :: kind == LOOK && ENDING -> looking = looking | BIT(client)
    :: kind == PART -> atomic { unfinished = lines; answers[client]!(!broken), lines }
    :: kind == WRITE || kind == CLOSE ->
#ifndef WITHOUT_REVOKE
        revoke();
#endif
        if
        :: kind == WRITE -> py_staged = py_staged | lines; py_waiting = py_waiting | lines
        :: else -> py_staged = py_staged | unfinished; unfinished = 0
        fi
    fi;
    changes_now = (kind == WRITE || kind == CLOSE);
    kind = 0; client = 0; file = 0; lines = 0; found = 0; fresh = false };
    if
    :: changes_now -> commit(failed);
#ifdef WITHOUT_REVOKE
        revoke();
#endif
        changes_now = false
    :: else -> skip
    fi
}

#define RESUMES (looked || (looking && !ENDING))

/* Handlers that were suspended. */
inline resume() {
    atomic { revoke();
    at = 0;
    do
    :: (looked & BIT(at)) ->
        answer_look(at, look_found[at], false);
        looked = looked & ~BIT(at); look_found[at] = 0; break
    :: (looking & BIT(at)) && !ENDING ->
        answer_look(at, shown, false);
        looking = looking & ~BIT(at); break
    :: else -> at++
    od;
    at = 0 }
}

/* Wait for what C does not answer. */
inline wait() {
    do
    :: true ->
        /* What was queued while nothing was lent. */
        atomic {
            if
            :: FREE && queue?[WRITE, _, _, _] && !held && lent && !ENDED && !CLOSING ->
                queue?kind, client, file, lines;
                staged = staged | lines
            :: FREE && (!queue?[WRITE, _, _, _] || held || !lent || ENDED || CLOSING) -> skip
            fi;
            waits = !NEWS && empty(queue)
        };
        if
        :: !waits && NEWS -> skip
        :: !waits && !NEWS -> break
        :: waits ->
end_waits:  if
            :: nempty(device) -> read_one()
            :: rung -> rung = false;
                if
                :: empty(queue) -> break
                :: nempty(queue) -> skip
                fi
            :: flush_done || RESUMES || SETTLES -> break
            fi
        fi;
        if
        :: NEWS ->
            do
            :: nempty(device) -> read_one()
            :: break
            od;
            settle(failed);
            if
            :: break /* somebody waits to hear of it */
            :: !IN_PYTHON || flushing -> skip
            fi
        :: else -> skip
        fi
    od
}

active proctype python() {
    bool waits, queued, failed, fresh, changes_now; mtype kind; byte client, file, lines, found, at;
    do
    :: atomic {
#ifdef WITHOUT_IDLE
        lent = !broken;
#else
        lent = !broken && (IN_PYTHON || (!flushing && !py_staged));
#endif
        away = false };
        atomic { FREE -> held = false };
        wait();
        away = true;
#ifndef WITHOUT_HOLD
        settle(failed);
        atomic { FREE && (IN_PYTHON || !staged) -> held = true };
#endif
        /* What C published comes first. */
        atomic {
            queued = false;
#ifndef WITHOUT_TAKING_BACK
            shown = shown | published;
#endif
#ifndef WITHOUT_BROKEN
            broken = broken || tail_failed;
#endif
            published = 0;
            deferred = (IN_PYTHON -> staged & ~settling : 0)
        };
        if
        :: nempty(queue) -> handle()
        :: SETTLES -> revoke(); commit(failed)
        :: flush_done ->
            atomic { revoke(); failed = flush_failed; flush_failed = false; flush_done = false; flushing = false };
            finish(failed);
            commit(failed)
        :: RESUMES -> resume()
        :: empty(queue) && !flush_done && !RESUMES && !SETTLES -> skip
        fi
    od
}

/* ---- clients ---- */

inline hear_of_write() {
    atomic { answers[me]?well, lines;
        assert(well || disk_failed);
        assert(!well || COVERS(durable, lines));
        told = told | (well -> lines : 0);
        lines = 0; well = false
    }
}

/* Nobody is shown less than was told before; of what a disk lost, nothing is. */
inline look() {
    atomic { before = told; device!LOOK, me, 0, 0 };
    atomic { answers[me]?well, lines;
        assert(COVERS(lines, before & (disk_failed -> durable : 255)));
        before = 0; lines = 0; well = false }
}

/* Two writes under way at once. */
#ifndef WITHOUT_WRITER
active proctype writer() {
    byte me = 0, lines; bool well;
    device!WRITE, me, 0, BIT(0);
    device!WRITE, me, 0, BIT(1);
    hear_of_write();
    hear_of_write();
    ended++
}
#endif

/* A line that its close ends, which the next look shows; then one to another file. */
#ifndef WITHOUT_CLOSER
active proctype closer() {
    byte me = 1, lines, before; bool well;
    device!PART, me, 1, BIT(2);
    answers[me]?well, lines;
    if
    :: well -> atomic { device!CLOSE, me, 1, 0; told = told | BIT(2) };
        if
        :: look()
        :: skip
        fi
    :: else -> skip
    fi;
    device!WRITE, me, 2, BIT(3);
    hear_of_write();
    ended++
}
#endif

#ifndef WITHOUT_READER
active proctype reader() {
    byte me = 2, lines, before; bool well;
    look();
#ifndef ONE_LOOK
    look();
#endif
    ended++
}
#endif

/* Whoever asks is answered in the end. */
ltl answered { <> (ended == ASKING) }
