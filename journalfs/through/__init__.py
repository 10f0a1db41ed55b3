"""Changes that a running broker makes for us: its files are read as always, and what changes something goes
to the broker by AMQP.

`wire` moves bytes between proton's engine and trio's streams, `links` sends, receives and ends transactions
over it, `management` asks the broker for what AMQP has no word for. `store` is what
a mount writes to.
"""
