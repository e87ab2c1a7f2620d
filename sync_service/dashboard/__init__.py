"""The dashboard: pages for people, rendered here, kept up to date by server-sent events.

    install.py       puts the pages on the app
    pages.py         how a page is made: template, headers, errors; `page()` is what a route answers
    access.py        who may see a page, who may act on it; sessions.py: what a browser holds instead of a key
    login.py         login and logout
    navigation.py    the tabs of a run
    runs.py          the list of runs
    overview.py      a run: who waits for whom; live.py keeps it up to date for all who watch
    panels.py        what each panel of the overview shows
    events.py        what happened in a run, with filters
    actions.py       what an operator does on a page
    static.py        stylesheets and scripts, ours and those in static/vendor
    templates/       one file a page; macros.html has figures, tables and times

Nothing of a page comes from elsewhere, and no page has an inline script or style. Text from outside is escaped by the
templates, and only by them.
"""
