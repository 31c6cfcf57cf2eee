package tree

// nonBlock is nothing: Windows has no pipes among its files.
const nonBlock = 0
