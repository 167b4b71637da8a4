"""
Erase what is kept of a person, and what is older than it has to be.

``erase.py`` finds and erases a person's data in every place; ``person.py`` says which rows and texts these are,
``ours.py`` which files are of this package; ``files.py`` and ``databases.py`` change the places; ``retention.py``
deletes by age.
"""
