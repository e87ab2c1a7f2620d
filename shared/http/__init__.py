"""What the three HTTP services have in common.

body.py, target.py      strict bodies, paths and queries
problems.py             errors as problem+json
guard.py                who may call what: keys.py, key_file.py; without keys, loopback.py
admission.py            how many requests at once
protocol.py             the protocol's version; requests.py: request ids
health.py, metrics.py   what is asked of every service; openapi.py: what each answers
lifespan.py, serve.py   the loops of a process, and running it under uvicorn
wire.py                 the other end: a transport to a server
"""
