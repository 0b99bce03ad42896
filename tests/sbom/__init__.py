"""What SBOMs of the gateway have besides what cyclonedx-py knows of: `make sbom`, `make image` (docs/supply-chain.md).

contents.py   reads files out of an image's archive
debian.py     Debian's packages of an image, with their licences
bom.py        puts them, and licences of Python packages, into an SBOM
"""
