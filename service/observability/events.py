"""What services log, in plain words, by the text that a line begins with. The reference is made of this."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

EVENTS: Mapping[str, str] = MappingProxyType(
    {
        # A service and its ports
        "serving": "All ports answer; the line has their addresses.",
        "waiting": "All ports answer, and the service is well, but it serves nobody yet: `reason` says what it waits "
        "for. Once that is there it begins by itself, and logs `serving`.",
        "looked at": "Somebody with that certificate made that call, to look. Each name and call is logged once "
        "an hour.",
        "revoked readers taken": "The file `revoked_readers` has changed. From now on its readers may not look.",
        "revoked readers cannot be read": "The file `revoked_readers` has changed, and `problem` names what is wrong "
        "with it. No reader may look until it is mended; the operator still may.",
        "draining": "The service, or a leader that was replaced, takes no new calls, and finishes those in work.",
        "signal ignored": "A signal came that services take no notice of. If settings changed, restart the service.",
        "open to strangers without a proxy": "A port of devices is beyond loopback, and nothing in front of it limits "
        "what one address may ask. `hint` names the steps.",
        "fewer connections than set": "The process may not have as many open files as `limits.connections` needs. So "
        "many are taken, and `hint` names what to raise.",
        "calls refused": "A limit of a port is full, and calls are refused by it.",
        "a connection was not taken": "The system refused a connection at the HTTPS port, as it does without files. "
        "The next is tried 0.1 s later. If files ran out, raise the unit's `LimitNOFILE`.",
        "a connection to the metrics port failed": "A reader of metrics left in the middle.",
        "metrics not collected": "The metrics could not be put together (`error` has the kind), and the port answered "
        "503. The next scrape tries again.",
        "a call failed": "Something happened that nobody foresaw. The traceback has no values. Please report it.",
        "health was not updated": "The health of a service could not be set. Please report it.",
        "spans are lost": "The collector of `[traces]` is away, slow, or refuses spans. So many were lost so far. "
        "Rounds go on. Look at the collector. It is logged at most every ten minutes.",
        "spans are taken again": "The collector takes spans again.",
        "log lines were lost": "So many lines could not be written since then.",
        # Keys and certificates
        "a key file cannot be read": "An identity next to the service's own belongs to another account, so the service "
        "goes on without it. Give the file to the service's account and restart the service.",
        "a private key is open to others": "The file's mode lets more than its owner read it. Run `chmod 600`, and "
        "find out who has read it.",
        "a certificate ends soon": "A TLS certificate ends within 30 days. It is logged at the start and every day. "
        "`remedy` names the command.",
        "a certificate has expired": "A TLS certificate has ended. It is logged at that moment and every day. "
        "`remedy` names the command.",
        "TLS files taken": "New TLS files are in use, for connections from now on.",
        "new TLS files cannot be used": "They changed, and do not fit: one of them is not there yet, is another "
        "party's, or has expired. Those before stay in use. They are looked at again when they change. Put files "
        "there that fit: `problem` names what does not.",
        "a key is damaged": "The private key of a round is not that of its signed record: the round waits.",
        "keys not looked over": "The look each minute at keys whose time is over failed. It is tried again. `error` "
        "has the cause, such as the store's disk.",
        "keys of rounds that never came destroyed": "So many keys were destroyed because their time was over.",
        "credentials": "The operator prepared, activated or forgot master keys, or revoked devices.",
        # The feed of tasks
        "feed entry taken": "A task was published or ended. `number` is the entry's, `action` what it does.",
        "feed not followed": "The next entry of the feed is refused, or its folder cannot be read. `error` names the "
        "file and the reason. The service goes on with the tasks that it has.",
        # Rounds at the shuffler
        "keys": "The shuffler has the analyzer's key of a round, and gives both keys to devices.",
        "round": "A round reached a state.",
        "closed by the operator": "`hubbub close` cut a round.",
        "round full": "A round has its task's `maximum_reports`, and turned a submission away. It is logged once a "
        "round, and once more after a restart.",
        "delivered": "The analyzer counted a batch: one query's reports of a round.",
        "no keys yet": "The analyzer did not answer or refused, so the round has no keys. It is tried again.",
        "not delivered": "The analyzer did not answer or refused a batch. It is tried again.",
        "not delivered, damaged": "The list of a round is damaged, and is not delivered.",
        "a step failed": "Something is in a round's way. It is tried again. `error` has the cause.",
        "a round cannot begin": "Something is in the way of a task's next round. It is tried again. `error` has the "
        "cause.",
        "given up, erased": "A round was erased: it is beyond the budget, or nothing opens it any more. Nothing can "
        "be done about it: `reason` has the cause.",
        "a stored round's task is not among the tasks": "A round of the store waits for a task file that was "
        "removed. Put the file back until the round is over, and restart the service.",
        "a task promises little": "At the start: a task's δ is above 0.1 / `minimum_reports`. `why` has its words. "
        "Plan the next task with a smaller `delta`.",
        "the database has no checksums of its pages": "At the start: PostgreSQL would not notice that a disk changed a "
        "page. `remedy` has the command.",
        "noise alone does not keep a task's promise": "At the start: a person whose report is the only honest one has "
        "a larger ε than the task's. `why` says which, and who must be honest for the task's. The law of the noise is "
        "not one that `hubbub plan` chose for this ε; if nobody else should be trusted, plan the task again.",
        "disk full: new submissions are refused": "No more than `disk_reserve` bytes are free, or than a round needs "
        "to be mixed.",
        # Batches
        "batch announced": "A hop or the analyzer begins to take a batch.",
        "batch committed": "The analyzer has counted a batch.",
        "batch mixed": "A hop has permuted a batch. The line has what it left out.",
        "batch passed on": "The next party has committed a batch of a hop.",
        "commit failed": "The analyzer could not count a batch, or a hop could not pass it on. It is tried again. If "
        "another identity signed than the `successions` name, repair those.",
        "forked": "The shuffler's releases are not those that the analyzer knows.",
        "charging again": "Another process charged the same task at the analyzer's store meanwhile. Do nothing.",
        "round certified": "A round's certificate is stored, and its results can be read.",
        "round waits for its certificate": "A round is counted. Others (`awaited`), released before it, may still be.",
        "round not certified": "The analyzer could not certify a round. It is tried again. `error` has the cause.",
        "rounds not looked over": "The look each minute at what is complete failed. It is tried again. `error` has "
        "the cause, such as the store's disk.",
        "results differ": "A certified round was asked for, and is stored otherwise than it was certified.",
        # Processes
        "a worker ended": "A process that answers devices ended, with why, or its status. It is started again. Its "
        "own lines have `worker=`. If it ends again and again, `error` and those lines have the cause.",
        "leader": "The main process has an incident, which its workers know of. Look for it in the lines of the main "
        "process.",
        "a frame of a worker is too long": "What came over the line between a worker and the main process has another "
        "form than theirs. The line is closed, and the worker is started again. Please report it.",
        "{name} of the other process failed": "A worker asked the main process for something that failed. The "
        "traceback has no values. Please report it.",
        "the answer of a process that opens envelopes could not be used": "It has another form. Please report it.",
        "nobody waits for {count} results any more": "Callers left before the store had answered them.",
        "Spark session": "A batch is worth Spark's cores, and an application of that name has begun on `master`. It "
        "ends with the batch.",
        "a job on Spark failed": "It failed more often than Spark tries a task (`error` has the cause), or could not "
        "begin. Nothing was counted, and the batch is committed again.",
        # Stores
        "a transaction failed": "The disk, or the database, refused a write. Nothing in it was acknowledged.",
        "the database does not answer": "Calls that need it are refused, with a time to come again. It is tried every "
        "second. Start the server, or repair the way to it (`error` has the cause).",
        "the database answers again": "It was away for so many `seconds`, and so many calls of devices, of the "
        "operator and of the service itself were `refused` meanwhile.",
        "a rollback failed": "A transaction that failed could not be taken back. The store is opened again. Look at "
        "the disk of the store.",
        "what was erased is not cut out of the files yet": "The analyzer erased, and the disk had no room to write "
        "its file anew. It is done after the next transaction. Make room on the disk.",
        "a log's mark cannot be written": "The file next to the store that marks how far its log goes cannot be "
        "written. It is emptied or removed instead: until it can be written, a log that is lost is not noticed at the "
        "next start. If neither is possible, a whole log may be taken for another one then. Look at the disk of the "
        "store, and at its folder's owner.",
        "the store was not looked over": "It is too large (more than 4 GiB) for the look at the start. `--check-store` "
        "looks at all of it.",
        "the store was not looked over to its end": "Its rows could not be read in 30 s at the start. `--check-store` "
        "looks at all of it.",
        "what a mixed round's lists were made of is still to be deleted": "Deleting the envelopes as they came failed "
        "after a round was mixed, as on a full disk. Nothing of the round is delivered before that is done. It is "
        "tried again by itself.",
        "the log still has the key of a round that was mixed": "The write-ahead log could not be cut after a round "
        "was mixed. Erasing the round insists on it. Look at the disk of the store.",
        "the keyring could not be written": "The disk of `data` refused a write of the keyring of a store in "
        "PostgreSQL. What needed the write is tried again.",
        "the keyring still has the key of a round that was mixed": "The keyring could not be written when a round in "
        "PostgreSQL was mixed. Erasing the round insists on it. Look at the disk of `data`.",
        "the keyring still has the secrets of a round that is over": "The analyzer's keyring could not be written "
        "when a round in PostgreSQL was certified or given up. The next change tries it again, and erasing the round "
        "insists on it. Look at the disk of `data`.",
        # A leader and its standbys
        "acting as the leader": "This shuffler keeps the rounds of its database from now on, in the `term` named.",
        "standing by": "Another shuffler keeps the rounds. This one takes over when that one is gone.",
        "another leader has taken over": "This process was the leader. It drains, and then stands by.",
        "cannot take over": "It is this one's turn, and it cannot begin (`error` has the cause). It goes on standing "
        "by, and tries again. Or this standby lacks a task, a succession or a private key, and could not begin.",
        "no leader answers": "A front end reached none of its `leaders` (`error` has what each answered). It goes on "
        "with the rounds whose secrets it has, and enrolls nobody meanwhile.",
        "the leader redeems no tickets": "A front end's leader refuses to redeem tickets (`error` has why, such as "
        "that a standby is missing). Tickets stay as they are, and devices are told to come again.",
        "the leader's lock is lost": "The leader's session in the database ended, as when the server was started "
        "again. It is taken again; a standby may be faster.",
        "the keyring does not follow": "None of the `leaders` gives its changes (`error` has what each answered), or "
        "there are `standbys` and `leaders` is empty. This one cannot take over with what it misses.",
        "the keyring was copied": "This standby has everything of the leader's keyring, and follows it.",
        "a standby has everything": "The leader knows that a standby follows, and waits for it with every change.",
        "too few standbys follow": "`standbys` asks for more (`error` has the numbers). No round begins and no device "
        "enrolls meanwhile. Start the standby.",
        "a standby is left behind": "It was silent, `standbys` is met without it, and the leader went on. It copies "
        "everything anew when it is back.",
    }
)
"""Every event of a service's log with its meaning."""
