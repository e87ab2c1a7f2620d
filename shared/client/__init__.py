"""The client of the sync service.

calls.py      `SyncClient`: a method for each call
gather.py     callers that submit one by one, gathered into one request
wire.py       one call: sent again while that may help, never beyond its deadline
retry.py      which answers are tried again, and not sooner than when
exchange.py   one request and its answer, to any server of ours
"""

from shared.client.calls import SyncClient as SyncClient
