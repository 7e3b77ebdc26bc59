"""◇ Compaction: it keeps the last value of every key, in its place and with its offset.

    plan = plan_cleaning(log, dirtiness(…), now_ms, …)    `plan`: on the loop; frozen inputs, None when there is nothing to do
    result = clean(files, plan)                           `copying`: in a worker process; reads segments, writes and syncs `.cleaned` files
    install(log, result, now_ms)                          `swap`: on the loop; swaps them in, one group after the other

Records are cleanable if they lie below the last stable offset and outside the active segment, are older than min.compaction.lag.ms and on
stable storage.  Of these records stay:

- the newest record of each key, unless it is a tombstone whose delete horizon (delete.retention.ms after its first cleaning) has passed;
- nothing of aborted transactions; a transaction's marker until its records are gone and its own horizon has passed;
- offsets, order, and the last batch of every living producer, if need be emptied, so that sequences and epochs are not forgotten.

`clean` reads twice. First the dirty part, into an `OffsetMap` (`offset_map`): key → newest offset.  Then everything, batch by batch: of the
dirty part the map knows how many records of a batch stay, so that most batches are copied or left out without a look inside.
`skim` does that look: it finds the starts of records and their keys, and no more.
Source: LogCleaner, LogCleanerManager, Cleaner, CleanedTransactionMetadata; KIP-534, KIP-58, KIP-354.
"""
